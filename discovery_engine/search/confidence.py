"""How probable it is that the best hit serves the query.

Relevance puts tools in order and says nothing of whether the first one is any good: some tool is
always the nearest. The confidence is a logistic model of these signals. Each works one way only,
the one that common sense says:

    fit       up     the share of what a tool could say about the query that the best one says
    told      up     how much of what the query says the best tool says, in telling words
    named     up     how much of the best tool's name the query says
    lead      up     how far the next hit is behind
    strange   down   telling words of the query that tools elsewhere say, and none here does
    size      down   how many tools there are: among many, some fit by chance
    meant     up     with vectors: how much likelier the best tool is to be meant than the usual one

Coefficients and what words tell are data, written by `scripts/fit_confidence.py`, which also
shows how far the probabilities hold.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from discovery_engine.search.documents import FULL
from discovery_engine.search.lexicon import CONCEPT, SUBJECT
from discovery_engine.search.named import Nearness

if TYPE_CHECKING:
    from discovery_engine.search.lexicon import Lexicon
    from discovery_engine.search.question import Question

_DATA = Path(__file__).parent / "data"
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
_UNLISTED = 1.0  # what a word tells that hardly any tool says, if this one does
_LEAST_FIT = 0.01
_LEAST_TOLD = 0.05
_UNLISTED_IN_NAME = 0.8  # the weight of such a word, where it is a part of the tool's name
_SIZES = (45, 15_000)  # tools; no catalog beyond these was seen, so none is judged beyond them


class Signals(Struct, frozen=True):
    fit: float
    """From 0 to 1."""
    told: float
    """From 0 up; a telling word in full is 1."""
    named: float
    """From 0 to 1."""
    lead: float
    """From 0 for a hit that fits as well, to 1 for none."""
    strange: float
    """From 0 up, as `told`."""
    size: int
    meant: float | None = None
    """In standard deviations of all tools' likeness to the query; None without vectors."""


class Model(Struct, frozen=True):
    """Coefficients; none is below 0."""

    fit: float
    told: float
    named: float
    lead: float
    strange: float
    size: float
    meant: float
    offset: float

    def __call__(self, signals: Signals) -> float:
        """The probability that the best hit serves the query, from 0 to 1."""
        weights = astuple(self)[:-1]
        score = sum(w * f for w, f in zip(weights, features(signals), strict=True))
        return (1 + math.tanh((score + self.offset) / 2)) / 2  # the logistic; never overflows


def features(signals: Signals) -> tuple[float, ...]:
    """What the coefficients apply to, in their order; all but the offset's."""
    least, most = _SIZES
    return (
        math.log(max(signals.fit, _LEAST_FIT)),
        math.log(signals.told + _LEAST_TOLD),
        signals.named,
        signals.lead,
        -signals.strange,
        -math.log(min(max(signals.size, least), most)),
        signals.meant or 0.0,
    )


def signals_of(
    question: Question,
    impacts: Mapping[str, int],
    *,
    name: str,
    lexicon: Lexicon,
    weights: Mapping[str, float],
    lead: float,
    size: int,
) -> Signals:
    """The signals of one answer.

    Args:
        question: The query, read against the catalog.
        impacts: What the best tool says of the question's terms, from 0 to `documents.FULL`.
        name: The best tool's.
        lexicon: Which words mean the same, or belong together.
        weights: What each stem tells, from 0 to 1.
        lead: How far the next hit is behind, from 0 to 1.
        size: How many tools there are.
    """
    gain = math.fsum(w * impacts.get(term, 0) for term, w in question.weights.items())
    reachable = (math.fsum(question.weights.values()) + question.unmet) * FULL
    unknown = dict.fromkeys(map(lexicon.stem, question.unknown))
    return Signals(
        fit=gain / reachable if reachable else 0.0,
        told=math.fsum(
            weights.get(word, _UNLISTED) * _said(terms, impacts)
            for word, terms in _words(question, lexicon)
        ),
        named=_named(question, lexicon.stems(name), lexicon, weights),
        lead=lead,
        strange=math.fsum(weights.get(stem, 0.0) for stem in unknown),
        size=size,
    )


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


def _named(
    question: Question, stems: Sequence[str], lexicon: Lexicon, weights: Mapping[str, float]
) -> float:
    """The share of a name that the query says, by what its words tell."""
    telling = {stem: weights.get(stem, _UNLISTED_IN_NAME) for stem in stems}
    asked = question.weights
    said = [w for stem, w in telling.items() if _is_said(lexicon.terms_of_stem(stem), asked)]
    return math.fsum(said) / total if (total := math.fsum(telling.values())) else 0.0


def _is_said(terms: Sequence[str], among: Container[str]) -> bool:
    return any(term in among for term in terms if not term.startswith(SUBJECT))


def _said(terms: Iterable[str], impacts: Mapping[str, int]) -> float:
    """How much the tool says a word, or something of its kind, from 0 to 1."""
    return max(_share(term) * impacts.get(term, 0) for term in terms) / FULL


def _share(term: str) -> float:
    if term.startswith(CONCEPT):
        return _OF_CONCEPT
    return _OF_SUBJECT if term.startswith(SUBJECT) else 1.0
