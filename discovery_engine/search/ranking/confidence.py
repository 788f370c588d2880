"""How probable it is that one of the first hits serves the query.

Relevance puts tools in order and says nothing of whether the first ones are any good: some tool is
always the nearest. The confidence is a logistic model of these signals, each of which works one way
only:

    fit       up     the share of what a tool could say about the query that the best one says
    asked     up     how much the query says, in telling words
    pair      up     the two most telling words of the query that one of the first tools says
    several   up     whether the query has several clauses: a tool that does one of them serves it
    missed    down   telling words that even the one that misses fewest of them does not say
    strange   down   telling words of the query that tools elsewhere say, and none here does
    size      down   how many tools there are: among many, some fit by chance
    meant     up     with vectors: how near in meaning the likest of the first tools is

A long request is judged passage by passage (see `passages`), and its log odds follow from theirs:
those of the best, something of the second best, since a task is about one thing over several
sentences, and less the more passages there are, since among many one fits by chance.

Coefficients and what words tell are data, written by `scripts/fit_confidence.py`, which also
shows how far the probabilities hold.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from discovery_engine.search.index.documents import FULL
from discovery_engine.search.query.name_match import Nearness
from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT

if TYPE_CHECKING:
    from discovery_engine.search.query.analyzer import Question
    from discovery_engine.search.text.lexicon import Lexicon

_DATA = Path(__file__).parents[1] / "data"
FIRST = 5
"""How many hits are judged."""
_LEAST_NAMED = {
    Nearness.LITERAL: 0.99,
    Nearness.SPELLED: 0.99,
    Nearness.MISTYPED: 0.9,
    Nearness.NOT: 0.0,
}
_LEAST_IN_ALL = 0.6  # of 59 such tools, 47 were right, and 3 were of queries that nothing serves
_TAGGED = 0.5  # that a tool serves a query that names all its tags, and says no more
_OF_CONCEPT = 0.65  # of a word, if the tool says another that means the same
_OF_SUBJECT = 0.25  # the same, if it is about the same subject
_UNLISTED = 0.9  # what a word tells that the table lacks, since hardly any tool says it
_LEAST_FIT = 0.01
_LEAST_TOLD = 0.1
_SIZES = (200, 4_000)  # tools; beyond these, the sets show, a size makes no difference


class Signals(Struct, frozen=True):
    fit: float
    """From 0 to 1."""
    asked: float
    """From 0 up, as all of words: 1 for the most telling word there is."""
    pair: float
    """From 0 to 2."""
    several: bool
    missed: float
    """From 0 up."""
    strange: float
    """From 0 up."""
    size: int
    meant: float | None = None
    """As `Likeness.height`; None without vectors."""


class Model(Struct, frozen=True):
    """Coefficients; those of signals, `second` and `passages` are not below 0."""

    fit: float
    asked: float
    pair: float
    several: float
    missed: float
    strange: float
    size: float
    meant: float
    offset: float
    second: float
    """What the log odds of the second best passage of a long request count for."""
    passages: float
    """What the logarithm of their number takes away."""
    long_offset: float
    """What is added for a request that has several."""

    def __call__(self, passages: Sequence[Signals]) -> float:
        """The probability that one of the first hits serves the request, from 0 to 1.

        Args:
            passages: The signals of each passage, at least one.
        """
        best, *others = sorted(map(self.log_odds, passages), reverse=True)
        if others:
            best += self.second * others[0] - self.passages * math.log(len(passages))
            best += self.long_offset
        return (1 + math.tanh(best / 2)) / 2  # the logistic; never overflows

    def log_odds(self, signals: Signals) -> float:
        """Of a request of one passage."""
        weighed = zip(astuple(self), features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


def features(signals: Signals) -> tuple[float, ...]:
    """What the coefficients apply to, in their order; all but the offset's."""
    least, most = _SIZES
    return (
        math.log(max(signals.fit, _LEAST_FIT)),
        math.log(signals.asked + _LEAST_TOLD),
        math.log(signals.pair + _LEAST_TOLD),
        float(signals.several),
        -math.log(signals.missed + _LEAST_TOLD),
        -signals.strange,
        -math.log(min(max(signals.size, least), most)),
        signals.meant or 0.0,
    )


def signals_of(
    question: Question,
    impacts: Sequence[Mapping[str, int]],
    *,
    lexicon: Lexicon,
    weights: Mapping[str, float],
    size: int,
    meant: float | None = None,
) -> Signals:
    """The signals of one answer.

    Args:
        question: The query, or a passage of it, read against the catalog.
        impacts: What each of the first tools says of the question's terms, the best one's first,
            from 0 to `documents.FULL`; at least one.
        lexicon: Which words mean the same, or belong together.
        weights: What each stem tells, from 0 to 1.
        size: How many tools there are.
        meant: As in `Signals`.
    """
    said = list(_words(question, lexicon))
    telling = [weights.get(word, _UNLISTED) for word, _ in said]
    unknown = dict.fromkeys(map(lexicon.stem, question.unknown))
    strange = {stem: weights.get(stem, 0.0) for stem in unknown}
    # A number that no tool mentions is an argument, and asks for nothing.
    lacking = math.fsum(w for stem, w in strange.items() if stem.isalpha())
    worth = [[(term, _share(term)) for term in terms] for _, terms in said]
    shares = [[_said(terms, one) for terms in worth] for one in impacts]
    listed = [weights.get(word, 0.0) for word, _ in said]
    return Signals(
        fit=_fit(question, impacts[0]),
        asked=math.fsum(telling) + lacking,
        pair=max(_pair(telling, one) for one in shares),
        several=bool(question.clauses),
        missed=min(_missed(listed, one) for one in shares) + lacking,
        strange=math.fsum(strange.values()),
        size=size,
        meant=meant,
    )


def _fit(question: Question, impacts: Mapping[str, int]) -> float:
    gain = math.fsum(w * impacts.get(term, 0) for term, w in question.weights.items())
    reachable = (math.fsum(question.weights.values()) + question.unmet) * FULL
    return gain / reachable if reachable else 0.0


def _pair(telling: Sequence[float], shares: Sequence[float]) -> float:
    """The two most telling words that a tool says; how much it says them counts for less."""
    both = nlargest(2, (w * math.sqrt(share) for w, share in zip(telling, shares, strict=True)))
    return math.fsum(both)


def _missed(listed: Sequence[float], shares: Sequence[float]) -> float:
    """The words that a tool does not say; one that hardly any tool says is an argument."""
    return math.fsum(w for w, share in zip(listed, shares, strict=True) if not share)


def says_all(question: Question, impacts: Mapping[str, int], lexicon: Lexicon) -> bool:
    """Whether a tool says every word of the query, or another that means the same."""
    if not question.weights or any(word.isalpha() for word in question.unknown):
        return False
    return all(_is_said(terms, impacts) for _, terms in _words(question, lexicon))


def in_all(by_words: float, *, nearness: Nearness, tagged: float, says_all: bool) -> float:
    """The confidence of a tool with what speaks for it beside the words that it says.

    Set by hand: in the sets of queries that the model comes from, hardly any query is a name, a
    tag, or a keyword or two.

    Args:
        by_words: The confidence by the model.
        nearness: How the query names the tool.
        tagged: The share of the tool's tags that the query names.
        says_all: Whether the tool says every word of the query.
    """
    by_words = 1 - (1 - by_words) * (1 - _TAGGED * tagged)
    return max(by_words, _LEAST_NAMED[nearness], _LEAST_IN_ALL if says_all else 0.0)


@cache
def default_model(*, with_vectors: bool = False) -> Model:
    """The model for tools found by words alone, or by vectors, too."""
    file = "confidence_with_vectors.txt" if with_vectors else "confidence.txt"
    lines = (_DATA / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return Model(**{name: float(value) for name, value in pairs})


def _words(question: Question, lexicon: Lexicon) -> Iterator[tuple[str, Sequence[str]]]:
    """The stem and the terms of each word; one that tools only have a synonym of stands as that."""
    met: set[str] = set()
    for term in question.weights:
        if not term.startswith((CONCEPT, SUBJECT)):
            terms = lexicon.terms_of_stem(term)
            met.update(terms)
            yield term, terms
    for term in question.weights:
        if term.startswith(CONCEPT) and term not in met:
            yield term.removeprefix(CONCEPT), (term,)


def _is_said(terms: Sequence[str], among: Container[str]) -> bool:
    return any(term in among for term in terms if not term.startswith(SUBJECT))


def _said(worth: Iterable[tuple[str, float]], impacts: Mapping[str, int]) -> float:
    """How much the tool says a word, or something of its kind, from 0 to 1."""
    return max(share * impacts.get(term, 0) for term, share in worth) / FULL


def _share(term: str) -> float:
    """What it counts for that a tool says a term, beside that it says the very word."""
    if term.startswith(CONCEPT):
        return _OF_CONCEPT
    return _OF_SUBJECT if term.startswith(SUBJECT) else 1.0
