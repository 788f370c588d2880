"""Confidence: the probability that one of the first hits serves the query.

Relevance orders tools, and does not show whether the first ones are any good: some tool is
always the nearest. Confidence is a logistic model of these signals, each of which can only raise it
or only lower it; words weigh by their inverse document frequency (idf) in published tools:

    fit         up     the share of the highest possible score that the best tool has
    asked       up     the idf of all words of the query
    pair        up     the idf of the two rarest words of the query that one of the first tools has
    several     up     whether the query has several clauses: a tool for one of them serves it
    missed      down   the idf of the words that even the tool that lacks fewest of them lacks
    strange     down   the idf of the words that published tools have, and none in this catalog
    size        down   the number of tools: among many, some fit by chance
    similarity  up     with vectors: how similar the most similar of the first tools is

The passages of a long request (see `passages`) have log odds each. Those of the request are those
of the best, plus a share of the second best, since a task is about one thing over several
sentences, and less the more passages there are, since among many one fits by chance.

The coefficients and the idf are data, fitted by `scripts/fit_confidence.py`, which also shows how
well the probabilities hold.
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

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.query.name_match import NameMatchKind
from discovery_engine.search.text.lexicon import CONCEPT, CONCEPT_WEIGHT, SUBJECT

if TYPE_CHECKING:
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.text.lexicon import Lexicon

_DATA = Path(__file__).parents[1] / "data"
FIRST = 5
"""How many hits the confidence is about."""
_NAMED_CONFIDENCE = {
    NameMatchKind.EXACT: 0.99,
    NameMatchKind.SPELLING: 0.99,
    NameMatchKind.TYPO: 0.9,
    NameMatchKind.NONE: 0.0,
}
# Of 59 tools with all words, 47 were right, and 3 were found for queries that nothing serves.
_ALL_WORDS_CONFIDENCE = 0.6
_TAG_CONFIDENCE = 0.5  # of a query that names all tags of the tool, and nothing else
_SUBJECT_CREDIT = 0.25  # what a word of the same subject is values beside the word itself
_UNLISTED_IDF = 0.9  # of a word that the table lacks, since hardly any tool contains it
_LEAST_FIT = 0.01
_LEAST_IDF = 0.1
_SIZES = (200, 4_000)  # tools; beyond these, the sets show, a size makes no difference


class Assessment(Struct, frozen=True):
    """How good the hits of a query are."""

    confidence: float
    """The probability that one of the first hits serves the query; 0 without hits."""
    alike: int
    """How many of the first hits fit about equally well; 1 if the first stands out."""
    unknown: tuple[str, ...]
    """Words of the query that no tool has."""


class Signals(Struct, frozen=True):
    fit: float
    """From 0 to 1."""
    asked: float
    """From 0 up, in idf: a word has 1 at most."""
    pair: float
    """From 0 to 2."""
    several: bool
    missed: float
    """From 0 up."""
    strange: float
    """From 0 up."""
    size: int
    similarity: float | None = None
    """As `Similarities.relative_best`; None without vectors."""


class ConfidenceModel(Struct, frozen=True):
    """Coefficients; those of signals, `second` and `passages` are not below 0."""

    fit: float
    asked: float
    pair: float
    several: float
    missed: float
    strange: float
    size: float
    similarity: float
    offset: float
    second: float
    """Of the log odds of the second best passage of a long request."""
    passages: float
    """Of the logarithm of the number of passages, which is subtracted."""
    long_offset: float
    """Added for a request of several passages."""

    def probability(self, passages: Sequence[Signals]) -> float:
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
    """What the coefficients apply to, in their order, without the offset."""
    least, most = _SIZES
    return (
        math.log(max(signals.fit, _LEAST_FIT)),
        math.log(signals.asked + _LEAST_IDF),
        math.log(signals.pair + _LEAST_IDF),
        float(signals.several),
        -math.log(signals.missed + _LEAST_IDF),
        -signals.strange,
        -math.log(min(max(signals.size, least), most)),
        signals.similarity or 0.0,
    )


def measure_signals(
    query: QueryTerms,
    impacts: Sequence[Mapping[str, int]],
    *,
    lexicon: Lexicon,
    idf: Mapping[str, float],
    size: int,
    similarity: float | None = None,
) -> Signals:
    """The signals of one answer.

    Args:
        query: The terms of the query, or of a passage of it.
        impacts: Of the query's terms on each of the first tools, the best tool first, from 0 to
            `documents.MAX_IMPACT`; at least one.
        lexicon: Synonyms and subjects.
        idf: The inverse document frequency of each stem, from 0 to 1.
        size: How many tools there are.
        similarity: As in `Signals`.
    """
    words = list(_word_terms(query, lexicon))
    rarities = [idf.get(word, _UNLISTED_IDF) for word, _ in words]
    unknown = dict.fromkeys(map(lexicon.stem, query.unknown))
    strange = {stem: idf.get(stem, 0.0) for stem in unknown}
    # A number that no tool mentions is an argument, and asks for nothing.
    unindexed = math.fsum(w for stem, w in strange.items() if stem.isalpha())
    values = [[(term, _credit(term)) for term in terms] for _, terms in words]
    shares = [[_extent(terms, one) for terms in values] for one in impacts]
    listed = [idf.get(word, 0.0) for word, _ in words]
    return Signals(
        fit=_fit(query, impacts[0]),
        asked=math.fsum(rarities) + unindexed,
        pair=max(_pair(rarities, one) for one in shares),
        several=bool(query.clauses),
        missed=min(_missed(listed, one) for one in shares) + unindexed,
        strange=math.fsum(strange.values()),
        size=size,
        similarity=similarity,
    )


def _fit(query: QueryTerms, impacts: Mapping[str, int]) -> float:
    gain = math.fsum(w * impacts.get(term, 0) for term, w in query.weights.items())
    reachable = (math.fsum(query.weights.values()) + query.unknown_weight) * MAX_IMPACT
    return gain / reachable if reachable else 0.0


def _pair(rarities: Sequence[float], shares: Sequence[float]) -> float:
    """The two rarest words that a tool has; the square root lets their impact count for less."""
    both = nlargest(2, (w * math.sqrt(share) for w, share in zip(rarities, shares, strict=True)))
    return math.fsum(both)


def _missed(rarities: Sequence[float], shares: Sequence[float]) -> float:
    """The words that a tool lacks; one that hardly any tool contains is an argument."""
    return math.fsum(w for w, share in zip(rarities, shares, strict=True) if not share)


def contains_all_words(query: QueryTerms, impacts: Mapping[str, int], lexicon: Lexicon) -> bool:
    """Whether a tool has every word of the query, or a synonym of it."""
    if not query.weights or any(word.isalpha() for word in query.unknown):
        return False
    return all(_contains(terms, impacts) for _, terms in _word_terms(query, lexicon))


def overall_confidence(
    by_words: float, *, name_match: NameMatchKind, tagged: float, has_all_words: bool
) -> float:
    """The confidence of the model, raised for a query that is a name, a tag, or a few words.

    Set by hand: hardly any query that the model is fitted on is a name, a tag, or a keyword or two.

    Args:
        by_words: The confidence by the model.
        name_match: How the query names the tool.
        tagged: The share of the tool's tags that the query names.
        has_all_words: Whether `contains_all_words` holds.
    """
    by_words = 1 - (1 - by_words) * (1 - _TAG_CONFIDENCE * tagged)
    by_all_words = _ALL_WORDS_CONFIDENCE if has_all_words else 0.0
    return max(by_words, _NAMED_CONFIDENCE[name_match], by_all_words)


@cache
def default_model(*, with_vectors: bool = False) -> ConfidenceModel:
    """The model for tools found by words alone, or by vectors, too."""
    file = "confidence_with_vectors.txt" if with_vectors else "confidence.txt"
    lines = (_DATA / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return ConfidenceModel(**{name: float(value) for name, value in pairs})


def _word_terms(query: QueryTerms, lexicon: Lexicon) -> Iterator[tuple[str, Sequence[str]]]:
    """The stem and the terms of each word; where tools only have a synonym, the synonym."""
    met: set[str] = set()
    for term in query.weights:
        if not term.startswith((CONCEPT, SUBJECT)):
            terms = lexicon.terms_of_stem(term)
            met.update(terms)
            yield term, terms
    for term in query.weights:
        if term.startswith(CONCEPT) and term not in met:
            yield term.removeprefix(CONCEPT), (term,)


def _contains(terms: Sequence[str], among: Container[str]) -> bool:
    return any(term in among for term in terms if not term.startswith(SUBJECT))


def _extent(values: Iterable[tuple[str, float]], impacts: Mapping[str, int]) -> float:
    """How much a tool has of a word, or of a synonym or subject of it, from 0 to 1."""
    return max(share * impacts.get(term, 0) for term, share in values) / MAX_IMPACT


def _credit(term: str) -> float:
    """What a term of a tool is worth beside the word itself."""
    if term.startswith(CONCEPT):
        return CONCEPT_WEIGHT
    return _SUBJECT_CREDIT if term.startswith(SUBJECT) else 1.0
