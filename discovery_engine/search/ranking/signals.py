"""Signals of how good the hits of a query are, measured for each passage of it.

Words weigh by their inverse document frequency (idf) in published tools. What an argument says (a
name, a quote, a path) is no part of what is asked for: hardly any tool mentions it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.operations.operation import Relation, relation
from discovery_engine.search.text.lexicon import CONCEPT, CONCEPT_WEIGHT, SUBJECT

if TYPE_CHECKING:
    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.search.operations.tool_profile import ToolProfile
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.text.lexicon import Lexicon

_SUBJECT_CREDIT = 0.25  # what a word of the same subject is values beside the word itself
_UNLISTED_IDF = 0.9  # of a word that the table lacks, since hardly any tool contains it
_NOTHING_ASKED = 0.5  # what is explained of a query of arguments alone
_FIRST_FEW = 5  # tools, of which the last shows how far the first one leads
_AGREEMENTS = {
    Relation.SAME: 1.0,
    Relation.KINDRED: 0.5,
    Relation.UNKNOWN: 0.5,
    Relation.OTHER: 0.25,
    Relation.CHANGES: 0.0,
    Relation.READS: 0.0,
    Relation.OPPOSITE: 0.0,
}


class AnswerSignals(Struct, frozen=True):
    """The signals of the request as a whole, whatever its passages."""

    size: int
    """How many tools there are."""
    lead: float = 0.0
    """From 0 to 1: how much less relevant the fifth tool is than the best."""
    operation: float = 0.5
    """From 0 to 1: how well the best tool does what is asked, by its operation."""
    operations: float = 0.5
    """The same of the one of the first tools that does it best."""
    types: bool = False
    """True if the best tool takes an argument of a kind that the request gives."""
    similarity: float | None = None
    """The similarity of the best tool, as `Similarities.relative`; None without vectors."""
    accord: bool = False
    """True if words and vectors have the same tool first."""


class Signals(Struct, frozen=True):
    fit: float
    """From 0 to 1."""
    asked: float
    """From 0 up, in idf: a word has 1 at most."""
    pair: float
    """From 0 to 2."""
    several: bool
    explained: float
    """From 0 to 1."""
    name: float
    """From 0 to 1."""
    strange: float
    """From 0 up."""
    answer: AnswerSignals


def operation_agreement(reading: RequestReading, profile: ToolProfile) -> float:
    """From 0 to 1; what is but guessed of a request is worth half."""
    agreement = _AGREEMENTS[relation(reading.operations, profile.operations)]
    return agreement if reading.is_explicit else (agreement + 0.5) / 2


def operation_differs(reading: RequestReading, profile: ToolProfile) -> bool:
    """Return whether a request says its operation, and a tool does another one."""
    agrees = (Relation.SAME, Relation.UNKNOWN)
    return reading.is_explicit and relation(reading.operations, profile.operations) not in agrees


def lead(relevances: Sequence[float]) -> float:
    """How much less relevant the last of the first few is than the best, from 0 to 1."""
    if len(relevances) < _FIRST_FEW or not relevances[0]:
        return 1.0
    return 1 - relevances[_FIRST_FEW - 1] / relevances[0]


def measure_signals(
    query: QueryTerms,
    impacts: Sequence[Mapping[str, int]],
    *,
    name: Sequence[str],
    arguments: Container[str],
    lexicon: Lexicon,
    idf: Mapping[str, float],
    answer: AnswerSignals,
) -> Signals:
    """The signals of one answer.

    Args:
        query: The terms of the query, or of a passage of it.
        impacts: Of the query's terms on each of the first tools, the best tool first, from 0 to
            `documents.MAX_IMPACT`; at least one.
        name: The stems of the best tool's name, without those of its server's.
        arguments: The stems that only arguments of the query have.
        lexicon: Synonyms and subjects.
        idf: The inverse document frequency of each stem, from 0 to 1.
        answer: The signals of the whole.
    """
    words = list(_word_terms(query, lexicon))
    rarities = [idf.get(word, _UNLISTED_IDF) for word, _ in words]
    unknown = dict.fromkeys(map(lexicon.stem, query.unknown))
    strange = {stem: idf.get(stem, 0.0) for stem in unknown}
    # A number that no tool mentions is an argument, and asks for nothing.
    unindexed = math.fsum(w for stem, w in strange.items() if stem.isalpha())
    values = [[(term, _credit(term)) for term in terms] for _, terms in words]
    shares = [[_extent(terms, tool_impacts) for terms in values] for tool_impacts in impacts]
    return Signals(
        fit=_fit(query, impacts[0]),
        asked=math.fsum(rarities) + unindexed,
        pair=max(_pair(rarities, tool_shares) for tool_shares in shares),
        several=bool(query.clauses),
        explained=_explained(words, rarities, unknown, impacts[0], arguments, idf),
        name=_named(name, query, lexicon, idf),
        strange=math.fsum(strange.values()),
        answer=answer,
    )


def contains_all_words(query: QueryTerms, impacts: Mapping[str, int], lexicon: Lexicon) -> bool:
    """Return whether a tool has every word of the query, or a synonym of it."""
    if not query.weights or any(word.isalpha() for word in query.unknown):
        return False
    return all(_contains(terms, impacts) for _, terms in _word_terms(query, lexicon))


def _fit(query: QueryTerms, impacts: Mapping[str, int]) -> float:
    gain = math.fsum(w * impacts.get(term, 0) for term, w in query.weights.items())
    reachable = (math.fsum(query.weights.values()) + query.unknown_weight) * MAX_IMPACT
    return gain / reachable if reachable else 0.0


def _pair(rarities: Sequence[float], shares: Sequence[float]) -> float:
    """The two rarest words that a tool has; the square root lets their impact count for less."""
    both = nlargest(2, (w * math.sqrt(share) for w, share in zip(rarities, shares, strict=True)))
    return math.fsum(both)


def _explained(
    words: Sequence[tuple[str, Sequence[str]]],
    rarities: Sequence[float],
    unknown: Iterable[str],
    impacts: Mapping[str, int],
    arguments: Container[str],
    idf: Mapping[str, float],
) -> float:
    """The share of the words of a query, its arguments aside, that a tool has."""
    total = held = 0.0
    for (word, terms), rarity in zip(words, rarities, strict=True):
        if word not in arguments:
            total += rarity
            held += rarity * max((_credit(term) for term in terms if term in impacts), default=0.0)
    total += math.fsum(
        idf.get(stem, _UNLISTED_IDF) for stem in unknown if stem.isalpha() and stem not in arguments
    )
    return held / total if total else _NOTHING_ASKED


def _named(
    name: Sequence[str], query: QueryTerms, lexicon: Lexicon, idf: Mapping[str, float]
) -> float:
    """The share of a tool's name that the query has, or a synonym of it."""
    whole = said = 0.0
    for stem in name:
        rarity = idf.get(stem, _UNLISTED_IDF)
        whole += rarity
        if stem in query.weights:
            said += rarity
        elif any(t.startswith(CONCEPT) and t in query.weights for t in lexicon.terms_of_stem(stem)):
            said += CONCEPT_WEIGHT * rarity
    return said / whole if whole else 0.0


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
    """Return how much a term of a tool counts, where the word itself counts 1."""
    if term.startswith(CONCEPT):
        return CONCEPT_WEIGHT
    return _SUBJECT_CREDIT if term.startswith(SUBJECT) else 1.0
