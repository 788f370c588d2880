"""Hits and their relevance: the combined scores of names, words, vectors, tags and uses."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Entry
from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.index.postings import impacts_of
from discovery_engine.search.operations.operation import (
    ALL,
    ArgumentKind,
    Relation,
    ToolProfile,
    relation,
)
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.config.settings import Weights
    from discovery_engine.search.index.postings import Postings
    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.search.query.analyzer import QueryTerms


class ScoreParts(Struct, frozen=True):
    """The parts of the relevance; `exact`, `partial`, `tag`, `usage` and `rerank` add up to it."""

    exact: float
    partial: float
    tag: float
    meaning: float = 0.0
    """The part of `partial` that comes from vectors; the rest comes from words."""
    agreement: float = 0.0
    """The change of `partial` by the agreement of request and tool, see `Agreement`."""
    usage: float = 0.0
    """The part of earlier uses, which is very small."""
    rerank: float = 0.0
    """The change of the relevance by a reranker, which may be negative."""


class Hit(Struct, frozen=True):
    """A tool that a search found, with its relevance."""

    entry: Entry
    relevance: float
    """The quality of the match, from 0 to 1; it is not a probability."""
    parts: ScoreParts

    @classmethod
    def from_parts(
        cls,
        entry: Entry,
        parts: tuple[float, float, float],
        meaning_share: float,
        agreement_share: float,
        by_usage: float,
    ) -> Hit:
        """Build a hit from its parts of relevance.

        Args:
            entry: The tool.
            parts: The parts `exact`, `partial` and `tag`.
            meaning_share: The share of `partial` that comes from vectors.
            agreement_share: The share of `partial` that comes from agreement.
            by_usage: The part of earlier uses.
        """
        exact, partial, tag = parts
        score_parts = ScoreParts(
            exact,
            partial,
            tag,
            meaning=partial * meaning_share,
            agreement=partial * agreement_share,
            usage=by_usage,
        )
        return cls(entry, sum(parts) + by_usage, score_parts)

    def with_relevance(self, relevance: float) -> Hit:
        """Return the hit with the relevance that a reranker gives it."""
        parts = replace(self.parts, rerank=relevance - self.relevance)
        return replace(self, relevance=relevance, parts=parts)


_USAGE_SHARE = 0.02  # the most that usage adds: less than separates a better tool from a worse


def relevance_parts(
    weights: Weights, *, exact: float, partial: float, tag: float
) -> tuple[float, float, float]:
    """Combine three scores, each from 0 to 1, to parts whose sum is at most 1.

    As in a noisy-or, each part is a share of what the parts before it leave to 1.
    """
    by_exact = weights.exact * exact
    by_partial = (1 - by_exact) * weights.partial * partial
    by_tag = (1 - by_exact - by_partial) * weights.tag * tag
    return by_exact, by_partial, by_tag


def usage_part(parts: tuple[float, ...], share: float) -> float:
    """Return the part of usage, by its share from 0 to 1; 0 if all other parts are 0."""
    return (1 - sum(parts)) * _USAGE_SHARE * share if any(parts) else 0.0


def name_likeness(query: str) -> Callable[[str], int]:
    """Return a function that counts the words of a name that the query contains unstemmed.

    To these it adds the number of adjacent pairs of them in the query's order. It only breaks ties,
    such as of `text_to_speech` and `speech_to_text`, or of `get_issue` and `get_issues`.
    """
    places = {word: place for place, word in reversed(list(enumerate(words(query))))}

    def likeness(name: str) -> int:
        held = [places[word] for word in words(name) if word in places]
        return len(held) + sum(place < other for place, other in pairwise(held))

    return likeness


# A score is a share of the highest possible one, from 0 to just under 1. A tool that matches one
# clause of a long request completely scores above one that matches a little of each.

# By `scripts/fit_ranking.py`, a quarter less and a quarter more change the macro NDCG@10 of 0.6858
# by -0.0008 and 0 for `_CLAUSE_SHARE`, and by -0.0004 and -0.0017 for `_SHORT_CLAUSE`.
_CLAUSE_SHARE = 0.3  # the share of the clause that fits best in the score
_SHORT_CLAUSE = 0.7  # the exponent by which clauses that are a small part of a request count less


def score_tools(postings: Postings, docs: Sequence[int], query: QueryTerms) -> list[float]:
    """Return the score by words of each of `docs`, which must ascend; from 0 to just under 1."""
    places = {doc: place for place, doc in enumerate(docs)}
    whole = [0.0] * len(docs)
    parts = [[0.0] * len(docs) for _ in query.clauses]
    for term, weight in query.weights.items():
        posting_list = postings.lists.get(term)
        if posting_list is None:
            continue
        within = [p for c, p in zip(query.clauses, parts, strict=True) if term in c]
        for i, impact in impacts_of(posting_list, places):
            gain = weight * impact
            whole[i] += gain
            for part in within:
                part[i] += gain
    if parts:
        best = _best_clause(parts, query, sum(query.weights.values()))
        whole = [
            (1 - _CLAUSE_SHARE) * w + _CLAUSE_SHARE * b for w, b in zip(whole, best, strict=True)
        ]
    return shares_of(whole, query)


def shares_of(sums: Sequence[float], query: QueryTerms) -> list[float]:
    """Divide sums of weighted impacts by the highest possible sum.

    For a query without clauses the results are the scores.
    """
    known_weight = sum(query.weights.values())
    reachable = (known_weight + query.unknown_weight) * (MAX_IMPACT + 1)
    return [total / reachable for total in sums] if known_weight else list(sums)


def contributions(impacts: Mapping[str, int], query: QueryTerms) -> dict[str, float]:
    """Return the contribution of each term to the score of a tool, by the terms' impacts in it."""
    gains = {term: query.weights[term] * impact for term, impact in impacts.items()}
    known_weight = sum(query.weights.values())
    clause, lift = _best_fitting(gains, query, known_weight)
    rest = 1 - _CLAUSE_SHARE if query.clauses else 1.0
    reachable = (known_weight + query.unknown_weight) * (MAX_IMPACT + 1)
    return {
        term: gain * (rest + (_CLAUSE_SHARE * lift if term in clause else 0.0)) / reachable
        for term, gain in gains.items()
    }


def _best_clause(
    parts: Sequence[Sequence[float]], query: QueryTerms, known: float
) -> Sequence[float]:
    """Return, for each tool, the score of its best clause; short clauses are lifted."""
    best: Sequence[float] = [0.0] * len(parts[0])
    for clause, part in zip(query.clauses, parts, strict=True):
        if lift := _lift(clause, query, known):
            best = [max(a, b * lift) for a, b in zip(best, part, strict=True)]
    return best


def _best_fitting(
    gains: Mapping[str, float], query: QueryTerms, known: float
) -> tuple[frozenset[str], float]:
    """Return the clause that a tool fits best, and the factor by which it is lifted."""
    lifted = ((clause, _lift(clause, query, known)) for clause in query.clauses)

    def fit(pair: tuple[frozenset[str], float]) -> float:
        clause, lift = pair
        return lift * sum(gain for term, gain in gains.items() if term in clause)

    return max(lifted, key=fit, default=(frozenset(), 0.0))


def _lift(clause: frozenset[str], query: QueryTerms, known: float) -> float:
    """Return the factor of a clause by its share of the request; 0 if its terms are unknown."""
    share = fsum(query.weights[term] for term in clause) / known if known else 0.0
    return share ** (_SHORT_CLAUSE - 1) if share else 0.0


# The fused score is a weighted mean of the scores by words and by vectors. The weight of the
# vectors depends on the best score by words for the query. Within a query, the fused score rises
# strictly with either.

# `scripts/fit_ranking.py --embedder` measures the effect of each constant.
_WEIGHT = 1.0  # the weight of vectors of a sentence model; the weight of words is 1
# The weight of sums of word vectors. At 0.7 these find 1 % more everyday requests, and two of 13
# sets lose 0.015 of NDCG.
_STATIC_WEIGHT = 0.4
_STEEPNESS = 1.8  # the slope from the most similar tool to one of mean similarity
_LEAST_BEST = 0.1  # the lower bound of the best score by words
_LEAST_SPREAD = 0.15  # the lower bound of the difference of the best and the mean similarity


class Contributions(NamedTuple):
    """The parts of a fused score, which is their sum."""

    words: float
    meaning: float


class Fusion(Struct, frozen=True):
    """The parameters of the fusion for one query."""

    best_words: float
    """The best score by words of any tool, from 0 to 1."""
    best_similarity: float
    """The greatest cosine of any tool."""
    mean_similarity: float
    """The mean of all cosines."""
    is_static: bool = False
    """True if the vectors are sums of word vectors."""

    def fuse(self, words: float, similarity: float | None) -> Contributions:
        """Both parts of a score from 0 to 1; without a similarity it is taken from the words."""
        best = max(self.best_words, _LEAST_BEST)
        relative = min(words / best, 1.0) if similarity is None else self._relative(similarity)
        weight = (_STATIC_WEIGHT if self.is_static else _WEIGHT) * best
        meaning = weight * math.exp(_STEEPNESS * (relative - 1))
        return Contributions(words / (1 + weight), meaning / (1 + weight))

    def _relative(self, similarity: float) -> float:
        """Scale a cosine: 1 for the most similar tool, 0 for the mean, negative below it."""
        spread = max(self.best_similarity - self.mean_similarity, _LEAST_SPREAD)
        return 1 - (self.best_similarity - similarity) / spread


# Agreement adjusts the score of a tool by words: the odds of the score are multiplied by a factor
# for each trait of the pair of request and tool. A similar tool with the wrong operation falls, and
# every score stays between 0 and 1.
#
#     delete the branch old      delete_branch    the same operation
#                                create_branch    the opposite one
#     open issues                list_issues      the same operation, of many
#                                close_issue      needs the identifier of one
#
# The weights of the traits are data, fitted by `scripts/fit_agreement.py`, which also measures
# their effect.

_FILE = Path(__file__).parents[1] / "data" / "agreement.txt"
# In log odds. With the pack for half of the servers, the first hit is right for 57 % of everyday
# requests to the other servers (54 % without this), 72 % (74 %) to that half, 75 % (73 %) to both.
_SHIPPED_EXAMPLES = -0.26
# In log odds. With -0.4 to -1 the first hit is right for 0.5 to 1.5 % more of the requests to
# unknown servers, a third of which name theirs.
_ELSEWHERE = -0.6
_READINGS = 64  # readings whose factors are cached: computing a dozen factors takes 50 us
_IDENTIFIER = int(ArgumentKind.IDENTIFIER)
_TYPED = int(
    ArgumentKind.URL
    | ArgumentKind.PATH
    | ArgumentKind.EMAIL
    | ArgumentKind.DATE
    | ArgumentKind.COORDINATES
    | ArgumentKind.REPOSITORY
    | ArgumentKind.CHANNEL
    | ArgumentKind.PERSON
)
"""Kinds of arguments that only parameters made for them accept."""
_TEXT = int(ArgumentKind.QUOTE | ArgumentKind.NAME)


class Trait(StrEnum):
    """A trait of a pair of a request and a tool."""

    SAME = "same"
    """Both have the same operation. This trait and its opposites count only if the request has an
    explicit verb."""
    KINDRED = "kindred"
    OTHER = "other"
    CHANGES = "changes"
    """The request asks to read, and the tool changes something."""
    READS = "reads"
    """The request asks to change something, and the tool reads."""
    OPPOSITE = "opposite"
    BOTH_MANY = "both_many"
    TOOL_MANY = "tool_many"
    """The tool handles many things, the request is about one or a few."""
    REQUEST_MANY = "request_many"
    """The request is about many things, the tool handles one."""
    BOTH_ONE = "both_one"
    UNIDENTIFIED = "unidentified"
    """The tool needs an identifier, and the request has no argument that may be one."""
    LACKS_KIND = "lacks_kind"
    """The request has an address, a path, a date …, and the tool has no parameter of that kind."""
    TAKES_IDENTIFIER = "takes_identifier"
    SHIPPED_EXAMPLES = "shipped_examples"
    """The tool has shipped requests, whose text would lift it above an equal tool without."""
    ELSEWHERE = "elsewhere"
    """The request names servers, and the tool is of none of them."""


_RELATED = {
    Relation.SAME: Trait.SAME,
    Relation.KINDRED: Trait.KINDRED,
    Relation.OTHER: Trait.OTHER,
    Relation.CHANGES: Trait.CHANGES,
    Relation.READS: Trait.READS,
    Relation.OPPOSITE: Trait.OPPOSITE,
}


def traits(reading: RequestReading, tool: ToolProfile) -> Iterator[Trait]:
    """Yield the traits of a request and a tool."""
    related = _RELATED.get(relation(reading.operations, tool.operations))
    if related and reading.is_explicit:
        yield related
    if reading.is_short:
        yield from _of_number(reading, tool)
    if reading.is_single:
        yield from _of_kinds(reading.given, tool)
    if tool.has_shipped_examples:
        yield Trait.SHIPPED_EXAMPLES
    if tool.is_elsewhere:
        yield Trait.ELSEWHERE


def _of_number(reading: RequestReading, tool: ToolProfile) -> Iterator[Trait]:
    if tool.is_for_many and reading.is_of_many is not None:
        yield Trait.BOTH_MANY if reading.is_of_many else Trait.TOOL_MANY
    if tool.is_for_one and reading.is_of_many:
        yield Trait.REQUEST_MANY
    if tool.is_for_one and reading.is_of_one:
        yield Trait.BOTH_ONE
    if tool.is_for_one and not reading.given & ~_TEXT:
        yield Trait.UNIDENTIFIED


def _of_kinds(kinds: int, tool: ToolProfile) -> Iterator[Trait]:
    typed = kinds & _TYPED
    if typed and not typed & tool.takes:
        yield Trait.LACKS_KIND
    if kinds & _IDENTIFIER & tool.takes:
        yield Trait.TAKES_IDENTIFIER


class TraitShare(NamedTuple):
    """The effect of a trait on a score."""

    trait: Trait
    adds: float
    """The change of the score; negative if the trait is evidence against the tool."""


class Agreement:
    """Adjusts the scores of tools by their agreement with one request."""

    def __init__(self, reading: RequestReading, weights: Mapping[Trait, float]) -> None:
        self._reading = reading
        self._weights = weights
        # Only the kinds of arguments that the request has are counted in a profile, so that all
        # tools of a query share a dozen factors.
        self._counted = ToolProfile(
            int(ALL),
            reading.given,
            is_for_many=True,
            is_for_one=True,
            has_shipped_examples=True,
            is_elsewhere=True,
        ).packed()
        self._factors: dict[int, float] = {}

    def adjusted(self, score: float, profile: int) -> float:
        """Return the score of a tool, from 0 to 1, adjusted by its packed profile."""
        return _moved(score, self._factor(profile & self._counted))

    def adjusted_all(self, scores: Iterable[float], profiles: Iterable[int]) -> list[float]:
        """Return the adjusted scores of tools; see `adjusted`."""
        counted = self._counted
        kinds = [profile & counted for profile in profiles]
        factors = {kind: self._factor(kind) for kind in set(kinds)}
        return [
            score * factor / (1 + score * (factor - 1))
            for score, factor in zip(scores, map(factors.__getitem__, kinds), strict=True)
        ]

    def _factor(self, counted: int) -> float:
        if counted not in self._factors:
            weights = (weight for _, weight in self._weighed(counted))
            self._factors[counted] = math.exp(math.fsum(weights))
        return self._factors[counted]

    def shares(self, score: float, profile: int) -> list[TraitShare]:
        """Return the effect of each trait on the score of a tool, the greatest weight first."""
        shares = []
        log_odds = 0.0
        for trait, weight in sorted(self._weighed(profile), key=lambda pair: -abs(pair[1])):
            before = _moved(score, math.exp(log_odds))
            log_odds += weight
            shares.append(TraitShare(trait, _moved(score, math.exp(log_odds)) - before))
        return shares

    def _weighed(self, profile: int) -> Iterator[tuple[Trait, float]]:
        for trait in traits(self._reading, ToolProfile.unpacked(profile)):
            if weight := self._weights.get(trait):
                yield trait, weight


def _moved(score: float, factor: float) -> float:
    """Multiply the odds of a score by a factor."""
    return score * factor / (1 + score * (factor - 1))


def without_elsewhere(relevance: float) -> float:
    """Return about the relevance that a tool has if the request names no other server."""
    return _moved(relevance, math.exp(-_ELSEWHERE))


def agreement_with(reading: RequestReading) -> Agreement:
    """Return the agreement by the default weights; equal readings share one cached object."""
    return _agreement(reading._replace(arguments=(), text=""))  # `given` has the kinds


@lru_cache(_READINGS)
def _agreement(reading: RequestReading) -> Agreement:
    return Agreement(reading, default_weights())


@cache
def default_weights() -> Mapping[Trait, float]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    fitted = {Trait(name): float(value) for name, value in pairs}
    return {Trait.SHIPPED_EXAMPLES: _SHIPPED_EXAMPLES, Trait.ELSEWHERE: _ELSEWHERE, **fitted}
