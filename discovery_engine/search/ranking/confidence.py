"""Confidence that one of the first hits serves a query, and the signals that it is estimated from.

Signals are measured for each passage of a query.
Words weigh by their inverse document frequency (idf) in published tools. What an argument says (a
name, a quote, a path) is no part of what is asked for: hardly any tool mentions it.
"""

from __future__ import annotations

import math
from functools import cache
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.operations.operation import Relation, relation
from discovery_engine.search.query.retrieval import NameMatchKind
from discovery_engine.search.text.lexicon import CONCEPT, CONCEPT_WEIGHT, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.operations.operation import ToolProfile
    from discovery_engine.search.operations.request_reading import RequestReading
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


DIFFERENT = frozenset((Relation.OTHER, Relation.CHANGES, Relation.READS, Relation.OPPOSITE))


class AnswerSignals(Struct, frozen=True):
    """The signals of the request as a whole, whatever its passages."""

    size: int
    """How many tools there are."""
    lead: float = 0.0
    """From 0 to 1: how much less relevant the fifth tool is than the best."""
    gap: float = 0.0
    """The same of the second tool."""
    is_elsewhere: bool = False
    """True if the request names a server, and the best tool says nothing of it."""
    has_examples: bool = False
    """True if the best tool has requests that it serves."""
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
    return reading.is_explicit and relation(reading.operations, profile.operations) in DIFFERENT


def lead(relevances: Sequence[float], place: int = _FIRST_FEW) -> float:
    """How much less relevant the tool at `place` is than the best, from 0 to 1."""
    if len(relevances) < place or not relevances[0]:
        return 1.0
    return 1 - relevances[place - 1] / relevances[0]


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


# Relevance orders tools, and does not show whether the first ones are any good: some tool is
# always the nearest. Confidence is a logistic model of these signals (`ranking.signals`), each of
# which can only raise it or only lower it; words weigh by their inverse document frequency (idf) in
# published tools:
#
#     fit         up     the share of the highest possible score that the best tool has
#     asked       up     the idf of all words of the query
#  pair  up  the idf of the two rarest words of the query that one of the first tools has
#     several     up     whether the query has several clauses: a tool for one of them serves it
#     explained   up     the share of the words asked for, arguments aside, that the best tool has
#     name        up     the share of the best tool's name that the query has
#     lead        up     how far the relevance of the best tool is above that of the fifth
#     operation   up     how well the best tool does what is asked: creates, lists, deletes …
#     operations  up     the same of the best of the first tools in this
#     types       up     whether the best tool takes an argument of a kind that the query gives
#     strange     down   the idf of the words that published tools have, and none in this catalog
#     size        down   the number of tools: among many, some fit by chance
#     similarity  up     with vectors: how similar the best tool is
#     accord      up     with vectors: whether words and vectors have the same tool first
#
# The passages of a long request (see `passages`) have log odds each. Those of the request are those
# of the best, plus a share of the second best, since a task is about one thing over several
# sentences, and less the more passages there are, since among many one fits by chance.
#
# There is a model for each way to find tools: by words alone or by vectors, too, and with or
# without examples of requests for the best tool. The coefficients and the idf are data, fitted by
# `scripts/fit_confidence.py`, which also shows how well the probabilities hold.

_DATA = Path(__file__).parents[1] / "data"
FIRST_HIT_FILE = _DATA / "first_hit.txt"
"""Written by `scripts/fit_first_hit.py`."""
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
UNSURE_CONFIDENCE = 0.49
"""Below what a match needs, by words and by a model."""
_LEAST_FIT = 0.01
_LEAST_IDF = 0.1
_LEAST_LEAD = 0.05
# Of 1,700 tools the best one for a request is at 0.4 to 0.9; as a logit of this the signal gains
# 2 to 3 % of log loss beside the similarity itself.
_SIMILARITIES = (0.05, 0.98)
_SIZES = (200, 4_000)  # tools; beyond these, the sets show, a size makes no difference


class Assessment(Struct, frozen=True):
    """How good the hits of a query are."""

    confidence: float
    """The probability that one of the first hits serves the query; 0 without hits."""
    alike: int
    """How many of the first hits fit about equally well; 1 if the first stands out."""
    unknown: tuple[str, ...]
    """Words of the query that no tool has."""


class ConfidenceModel(Struct, frozen=True):
    """Coefficients; those of signals, `second` and `passages` are not below 0."""

    fit: float
    asked: float
    pair: float
    several: float
    explained: float
    name: float
    lead: float
    operation: float
    operations: float
    types: float
    strange: float
    size: float
    similarity: float
    accord: float
    offset: float
    second: float
    """Coefficient of the log odds of the second best passage of a long request."""
    passages: float
    """Coefficient of the logarithm of the number of passages, which is subtracted."""
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
        """Return the log odds of a request of one passage."""
        weighed = zip(astuple(self), features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


class FirstHitModel(Struct, frozen=True):
    """Coefficients of the log odds that the first hit serves a request, so that it is a match.

    The confidence is about the first few: it is high as well where the right tool is missing, and
    one with another operation, object or product is the nearest.
    """

    asked: float
    explained: float
    name: float
    lead: float
    gap: float
    operation: float
    elsewhere: float
    examples: float
    offset: float

    def is_right(self, passages: Sequence[Signals]) -> bool:
        """Return whether the first hit is more probably right than wrong, by the best passage."""
        return max(map(self.log_odds, passages)) > 0

    def log_odds(self, signals: Signals) -> float:
        weighed = zip(astuple(self), first_hit_features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


def first_hit_features(signals: Signals) -> tuple[float, ...]:
    """Return the values that the coefficients of a `FirstHitModel` apply to, without the offset."""
    answer = signals.answer
    return (
        math.log(signals.asked + _LEAST_IDF),
        signals.explained,
        signals.name,
        math.log(answer.lead + _LEAST_LEAD),
        answer.gap,
        answer.operation,
        float(answer.is_elsewhere),
        float(answer.has_examples),
    )


def features(signals: Signals) -> tuple[float, ...]:
    """Return the values that the coefficients apply to, in their order, without the offset."""
    least, most = _SIZES
    answer = signals.answer
    return (
        math.log(max(signals.fit, _LEAST_FIT)),
        math.log(signals.asked + _LEAST_IDF),
        math.log(signals.pair + _LEAST_IDF),
        float(signals.several),
        signals.explained,
        signals.name,
        math.log(answer.lead + _LEAST_LEAD),
        answer.operation,
        answer.operations,
        float(answer.types),
        -signals.strange,
        -math.log(min(max(answer.size, least), most)),
        _logit(answer.similarity or 0.0),
        float(answer.accord),
    )


def _logit(similarity: float) -> float:
    """Return the logit, since a similarity counts more the nearer it is to identity."""
    bounded = min(max(similarity, _SIMILARITIES[0]), _SIMILARITIES[1])
    return math.log(bounded / (1 - bounded))


def overall_confidence(
    by_words: float,
    *,
    name_match: NameMatchKind,
    tagged: float,
    has_all_words: bool,
    is_first_right: bool,
) -> float:
    """The confidence of the model, raised for a query that is a name, a tag, or a few words.

    Set by hand: hardly any query that the model is fitted on is a name, a tag, or a keyword or two.
    It is bounded for a tool that is probably not right, unless it is named.

    Args:
        by_words: The confidence by the model.
        name_match: How the query names the tool.
        tagged: The share of the tool's tags that the query names.
        has_all_words: Whether `contains_all_words` holds.
        is_first_right: Whether the first tool is right by the `FirstHitModel`.
    """
    by_words = 1 - (1 - by_words) * (1 - _TAG_CONFIDENCE * tagged)
    by_all_words = _ALL_WORDS_CONFIDENCE if has_all_words else 0.0
    by_content = max(by_words, by_all_words)
    if not is_first_right:
        by_content = min(by_content, UNSURE_CONFIDENCE)
    return max(by_content, _NAMED_CONFIDENCE[name_match])


@cache
def default_model(*, with_vectors: bool = False, with_examples: bool = False) -> ConfidenceModel:
    """The model for tools found by words alone, or by vectors, too."""
    return ConfidenceModel(
        **_coefficients(model_file(with_vectors=with_vectors, with_examples=with_examples))
    )


@cache
def first_hit_model() -> FirstHitModel:
    return FirstHitModel(**_coefficients(FIRST_HIT_FILE))


def _coefficients(file: Path) -> dict[str, float]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def model_file(*, with_vectors: bool, with_examples: bool) -> Path:
    added = [name for name, has in (("vectors", with_vectors), ("examples", with_examples)) if has]
    return _DATA / f"{'_'.join(('confidence', *added))}.txt"
