"""Estimates the confidence that one of the first hits serves a query, from a set of signals.

Signals are measured for each passage of a query. Words are weighted by their inverse document
frequency (idf) in published tools. The words of arguments (a name, a quote, a path) do not count as
part of the request, since hardly any tool mentions them.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple, replace

from discovery_engine._util.digests import blake2b
from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.operations.operation import Relation, relation
from discovery_engine.search.query.retrieval import NameMatchKind
from discovery_engine.search.text.lexicon import CONCEPT, CONCEPT_WEIGHT, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.config.settings import Calibration, SearchSettings, Settings
    from discovery_engine.search.operations.operation import ToolProfile
    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.text.lexicon import Lexicon

_SUBJECT_CREDIT = 0.25  # the value of a word of the same subject, if the word itself has 1
_UNLISTED_IDF = 0.9  # the idf of a word that the table lacks, since hardly any tool contains it
_NOTHING_ASKED = 0.5  # the signal `explained` of a query that consists of arguments alone
_FIRST_FEW = 5  # the place of the tool with which `lead` compares the best one
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
    """The signals of a request as a whole, which do not depend on its passages."""

    size: int
    """The number of tools."""
    lead: float = 0.0
    """The relative difference in relevance of the best and the fifth tool, from 0 to 1."""
    gap: float = 0.0
    """The relative difference in relevance of the best and the second tool, from 0 to 1."""
    is_elsewhere: bool = False
    """True if the request names a server that the best tool does not mention."""
    has_examples: bool = False
    """True if the best tool has examples of requests."""
    operation: float = 0.5
    """The agreement of the best tool's operation with the request, from 0 to 1."""
    operations: float = 0.5
    """The highest such agreement among the first tools."""
    types: bool = False
    """True if the best tool accepts an argument of a kind that the request contains."""
    similarity: float | None = None
    """The similarity of the best tool, as `Similarities.relative`; None without vectors."""
    accord: bool = False
    """True if words and vectors rank the same tool first."""


class Signals(Struct, frozen=True):
    """The signals of one passage; the comment below explains each."""

    fit: float
    """A share, from 0 to 1."""
    asked: float
    """A sum of idf, at least 0; a word adds 1 at most."""
    pair: float
    """A sum of two idf, from 0 to 2."""
    several: bool
    explained: float
    """A share, from 0 to 1."""
    name: float
    """A share, from 0 to 1."""
    strange: float
    """A sum of idf, at least 0."""
    answer: AnswerSignals


def operation_agreement(reading: RequestReading, profile: ToolProfile) -> float:
    """Return the agreement of the operations of a request and a tool, from 0 to 1.

    If the request's operation is only guessed, the result is closer to 0.5 by half.
    """
    agreement = _AGREEMENTS[relation(reading.operations, profile.operations)]
    return agreement if reading.is_explicit else (agreement + 0.5) / 2


def operation_differs(reading: RequestReading, profile: ToolProfile) -> bool:
    """Return whether a request states its operation and the tool has another one."""
    return reading.is_explicit and relation(reading.operations, profile.operations) in DIFFERENT


def lead(relevances: Sequence[float], place: int = _FIRST_FEW) -> float:
    """Return the relative difference in relevance of the best tool and that at `place`.

    It is from 0 to 1; 1 if there are fewer tools.
    """
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
    """Measure the signals of a query or a passage.

    Args:
        query: The terms of the query, or of a passage of it.
        impacts: For each of the first tools, of which there is at least one, the best tool first,
            the impacts of the query's terms, from 0 to `documents.MAX_IMPACT`.
        name: The stems of the best tool's name, without those of its server's name.
        arguments: The stems that occur only in arguments of the query.
        lexicon: The lexicon, for synonyms and subjects.
        idf: The inverse document frequency of each stem, from 0 to 1.
        answer: The signals of the request as a whole.
    """
    words = list(_word_terms(query, lexicon))
    rarities = [idf.get(word, _UNLISTED_IDF) for word, _ in words]
    unknown = dict.fromkeys(map(lexicon.stem, query.unknown))
    strange = {stem: idf.get(stem, 0.0) for stem in unknown}
    # A number that no tool mentions is an argument, which is no part of the request.
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
    """Return whether a tool contains every word of the query or a synonym of it."""
    if not query.weights or any(word.isalpha() for word in query.unknown):
        return False
    return all(_contains(terms, impacts) for _, terms in _word_terms(query, lexicon))


def _fit(query: QueryTerms, impacts: Mapping[str, int]) -> float:
    gain = math.fsum(w * impacts.get(term, 0) for term, w in query.weights.items())
    reachable = (math.fsum(query.weights.values()) + query.unknown_weight) * MAX_IMPACT
    return gain / reachable if reachable else 0.0


def _pair(rarities: Sequence[float], shares: Sequence[float]) -> float:
    """Return the sum of the two highest products of a word's idf and the square root of its share.

    The square root reduces the influence of impacts.
    """
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
    """Return the share of a query's words, except those of arguments, that a tool contains."""
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
    """Return the share of a tool's name that the query contains, itself or by a synonym."""
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
    """Yield the stem and the terms of each word of a query.

    If tools contain only synonyms of a word, yield the term of the synonyms instead.
    """
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
    """Return the share of a word, its synonyms or its subject in a tool, from 0 to 1."""
    return max(share * impacts.get(term, 0) for term, share in values) / MAX_IMPACT


def _credit(term: str) -> float:
    """Return the value of a term if the word itself has 1."""
    if term.startswith(CONCEPT):
        return CONCEPT_WEIGHT
    return _SUBJECT_CREDIT if term.startswith(SUBJECT) else 1.0


# Relevance orders tools, but does not show whether the first ones are good, since some tool is
# always the nearest. Confidence is a logistic model of these signals (`Signals`), each of which
# can only raise it or only lower it. Words are weighted by their inverse document frequency (idf)
# in published tools:
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
# Each passage of a long request (see `passages`) has log odds of its own. The log odds of the
# request are those of the best passage, plus a share of the second best, since several sentences
# may be about one thing. They fall with the number of passages, since one of many fits by chance.
#
# There are four models: with or without vectors, and with or without examples of requests for the
# best tool. The coefficients and the idf are data, fitted by `scripts/fit_confidence.py`, which
# also measures the calibration of the probabilities.

_DATA = Path(__file__).parents[1] / "data"
FIRST_HIT_FILE = _DATA / "first_hit.txt"
"""The coefficients that `scripts/fit_first_hit.py` writes."""
FIRST = 5
"""The number of first hits to which the confidence refers."""
_NAMED_CONFIDENCE = {
    NameMatchKind.EXACT: 0.99,
    NameMatchKind.SPELLING: 0.99,
    NameMatchKind.TYPO: 0.9,
    NameMatchKind.NONE: 0.0,
}
# Of 59 tools with all words, 47 were right, and 3 were found for queries that nothing serves.
_ALL_WORDS_CONFIDENCE = 0.6
_TAG_CONFIDENCE = 0.5  # for a query that names all tags of the tool, and nothing else
UNSURE_CONFIDENCE = 0.49
"""The confidence of an answer that must not be a match: just below the least of a match."""
_LEAST_FIT = 0.01
_LEAST_IDF = 0.1
_LEAST_LEAD = 0.05
_LEAST_PROBABILITY = 1e-9
# Among 1,700 tools the best one for a request has a similarity of 0.4 to 0.9. Its logit improves
# the log loss by 2 to 3 % over the similarity itself.
_SIMILARITIES = (0.05, 0.98)
_SIZES = (200, 4_000)  # tools; the measured sets show no effect of the size beyond these


class Assessment(Struct, frozen=True):
    """The quality of the hits of a query."""

    confidence: float
    """The probability that one of the first hits serves the query; 0 without hits."""
    alike: int
    """The number of first hits that fit about equally well; 1 if the first stands out."""
    unknown: tuple[str, ...]
    """Words of the query that no tool contains."""


class ConfidenceModel(Struct, frozen=True):
    """The coefficients of a model; those of signals, `second` and `passages` are at least 0."""

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
    """The offset added for a request of several passages."""

    def probability(self, passages: Sequence[Signals]) -> float:
        """Return the probability that one of the first hits serves the request, from 0 to 1.

        Args:
            passages: The signals of each passage, at least one.
        """
        best, *others = sorted(map(self.log_odds, passages), reverse=True)
        if others:
            best += self.second * others[0] - self.passages * math.log(len(passages))
            best += self.long_offset
        return _logistic(best)

    def log_odds(self, signals: Signals) -> float:
        """Return the log odds of a request of one passage."""
        weighed = zip(astuple(self), features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


class FirstHitModel(Struct, frozen=True):
    """The coefficients of the log odds that the first hit is right, which a match requires.

    The confidence refers to the first few hits. It can be high although the right tool is missing,
    if the nearest one has another operation, object or product.
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
        """Return whether the first hit is probably right."""
        return self.log_odds(self.best(passages)) > 0

    def best(self, passages: Sequence[Signals]) -> Signals:
        """Return the passage that fits the first hit best."""
        return max(passages, key=self.log_odds)

    def log_odds(self, signals: Signals) -> float:
        weighed = zip(astuple(self), first_hit_features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


def first_hit_features(signals: Signals) -> tuple[float, ...]:
    """Return the values for the coefficients of a `FirstHitModel`, in their order."""
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
    """Return the values for the coefficients of a `ConfidenceModel`, in their order."""
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


def _logistic(odds: float) -> float:
    return (1 + math.tanh(odds / 2)) / 2  # never overflows


def _logit(similarity: float) -> float:
    """Return the logit of a similarity, which stresses differences close to identity."""
    return log_odds(min(max(similarity, _SIMILARITIES[0]), _SIMILARITIES[1]))


def overall_confidence(
    by_words: float,
    *,
    name_match: NameMatchKind,
    tagged: float,
    has_all_words: bool,
    is_first_right: bool,
) -> float:
    """Return the confidence of the model, raised for a query that is a name, a tag, or keywords.

    The constants are set by hand, since the model is fitted on few such queries. The confidence is
    bounded if the first tool is probably not right, unless the query names it.

    Args:
        by_words: The confidence by the model.
        name_match: The way in which the query names the tool.
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
    """Return the model for searches by words, or by words and vectors."""
    return ConfidenceModel(
        **_coefficients(model_file(with_vectors=with_vectors, with_examples=with_examples))
    )


@cache
def first_hit_model() -> FirstHitModel:
    return FirstHitModel(**_coefficients(FIRST_HIT_FILE))


# A calibration replaces what was fitted on the catalogs of others: it has a model of the first hit
# of its own, and scales the log odds of the confidence (Platt, "Probabilistic outputs for support
# vector machines", 1999). It holds for one ranking and one way of searching.


@lru_cache(8)
def calibration_key(settings: SearchSettings) -> str:
    """Return a digest of the shipped models, and of the settings that change what is found."""
    models = [default_model(with_vectors=v, with_examples=e) for v in (0, 1) for e in (0, 1)]
    # Without the address, which is not in stored settings.
    embeddings = replace(settings.embeddings, url="", api_key="")
    way = settings.weights, embeddings, settings.synonyms, settings.shipped_examples
    return blake2b(repr((first_hit_model(), models, way)).encode(), digest_size=8).hexdigest()


def calibration_in_use(settings: Settings) -> Calibration | None:
    """Return the calibration of a configuration if it was fitted with this ranking."""
    calibration = settings.calibration
    if calibration and calibration.key == calibration_key(settings.search):
        return calibration
    return None


def calibrated(probability: float, calibration: Calibration) -> float:
    """Return the confidence of a model, scaled by a calibration."""
    return _logistic(calibration.slope * log_odds(probability) + calibration.offset)


def log_odds(probability: float) -> float:
    bounded = min(max(probability, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
    return math.log(bounded / (1 - bounded))


def _coefficients(file: Path) -> dict[str, float]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def model_file(*, with_vectors: bool, with_examples: bool) -> Path:
    added = [name for name, has in (("vectors", with_vectors), ("examples", with_examples)) if has]
    return _DATA / f"{'_'.join(('confidence', *added))}.txt"
