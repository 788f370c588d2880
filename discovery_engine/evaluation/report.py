"""The report of a run of the owner's queries: a row for each, and the measures over all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.evaluation.queries import Query, QuerySet
from discovery_engine.view.search_answers import Decision, SearchAnswer
from discovery_engine.view.view import View

DEPTH = 10
"""Ranks that count; what stands below has not been found."""

T = TypeVar("T")

Ranks = Sequence[int]


def _ranks_of(hits: Iterable[T], right: Container[T]) -> tuple[int, ...]:
    """The ranks of the right ones among the first `DEPTH`, ascending."""
    return tuple(rank for rank, hit in enumerate(hits, 1) if hit in right and rank <= DEPTH)


def recall(ranks: Ranks, right: int, depth: int) -> float:
    """The share of the `right` tools that stand among the first `depth`."""
    return sum(rank <= depth for rank in ranks) / right


def reciprocal_rank(ranks: Ranks) -> float:
    """1 for a right tool at the top, 1/2 if the first one is second, 0 if there is none."""
    return 1 / min(ranks) if ranks else 0.0


def ndcg(ranks: Ranks, right: int) -> float:
    """The discounted gain of the right tools, as a share of what the best order would gain."""
    best = _gain(range(1, min(right, DEPTH) + 1))
    return min(_gain(ranks) / best, 1.0)


def mean(values: Iterable[float]) -> float | None:
    """None of nothing: what was not measured is not zero."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """The least value that `share` of the values do not exceed (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else None


def _gain(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)


_CLEARNESS = {Decision.NONE: 1.0, Decision.UNSURE: 0.5, Decision.MATCH: 0.0}
"""The quality of an answer to a query that no tool can serve."""

Totals = Mapping[str, float | None]
"""By the name of the measure; None for what the queries do not measure."""


class ReportRow(Struct, frozen=True, dict=True):
    """One query and its answer."""

    id: str
    query: str
    server: str | None
    right: tuple[str, ...]
    """The right tools, as `server:tool`; empty if the right answer is that nothing fits."""
    found: tuple[str, ...]
    """The first `DEPTH` tools of the answer; empty if nothing fits."""
    decision: Decision
    tokens: int
    """Tokens that the answer costs an agent, estimated."""
    milliseconds: float

    @property
    def is_serviceable(self) -> bool:
        """True if any tool can serve the query."""
        return bool(self.right)

    @property
    def is_match(self) -> bool:
        return self.decision is Decision.MATCH

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Where the right tools stand."""
        return _ranks_of(self.found, set(self.right))

    @property
    def is_good(self) -> bool:
        """A right tool was found, or, where there is none, there was no match."""
        return bool(self.ranks) if self.is_serviceable else not self.is_match

    @property
    def standing(self) -> str:
        """The ranks of the right tools, or what came instead of them."""
        if self.ranks:
            return ", ".join(map(str, self.ranks))
        return "not found" if self.is_serviceable and self.found else self.decision.value

    @property
    def score(self) -> float:
        """The quality of the answer, from 0 to 1: NDCG, or how clearly it has no match."""
        if self.is_serviceable:
            return ndcg(self.ranks, len(self.right))
        return _CLEARNESS[self.decision]

    def to_json(self) -> JSONObject:
        return {
            "id": self.id,
            "query": self.query,
            "server": self.server,
            "tools": list(self.right),
            "found": list(self.found),
            "ranks": list(self.ranks),
            "decision": self.decision.value,
            "standing": self.standing,
            "good": self.is_good,
            "tokens": self.tokens,
            "milliseconds": self.milliseconds,
        }


class Metric(Struct, frozen=True):
    name: str
    more_is_better: bool
    measure: Callable[[Sequence[ReportRow]], float | None]
    unit: str = ""
    """Empty for shares, which are from 0 to 1."""


class Report(Struct, frozen=True, dict=True):
    rows: tuple[ReportRow, ...]
    skipped: tuple[str, ...] = ()
    """The ids of queries that were not asked."""

    @cached_property
    def totals(self) -> Totals:
        """Every measure of `METRICS`, in that order."""
        return {metric.name: metric.measure(self.rows) for metric in METRICS}

    def to_json(self) -> JSONObject:
        return {
            "metrics": dict(self.totals),
            "queries": [row.to_json() for row in self.rows],
            "skipped": list(self.skipped),
        }


def _over_serviceable(
    measure: Callable[[ReportRow], float],
) -> Callable[[Sequence[ReportRow]], float | None]:
    return lambda rows: mean(measure(row) for row in rows if row.is_serviceable)


def _over_matches(
    measure: Callable[[ReportRow], float],
) -> Callable[[Sequence[ReportRow]], float | None]:
    return lambda rows: mean(measure(row) for row in rows if row.is_serviceable and row.is_match)


def _over_unserviceable(
    measure: Callable[[ReportRow], float],
) -> Callable[[Sequence[ReportRow]], float | None]:
    return lambda rows: mean(measure(row) for row in rows if not row.is_serviceable)


def _recall_at(depth: int) -> Callable[[Sequence[ReportRow]], float | None]:
    return _over_serviceable(lambda row: recall(row.ranks, len(row.right), depth))


def _latency(share: float) -> Callable[[Sequence[ReportRow]], float | None]:
    return lambda rows: percentile((row.milliseconds for row in rows), share)


METRICS = (
    Metric("hit@1", True, _over_serviceable(lambda row: float(1 in row.ranks))),
    Metric("recall@1", True, _recall_at(1)),
    Metric("recall@5", True, _recall_at(5)),
    Metric(f"recall@{DEPTH}", True, _recall_at(DEPTH)),
    Metric("mrr", True, _over_serviceable(lambda row: reciprocal_rank(row.ranks))),
    Metric(f"ndcg@{DEPTH}", True, _over_serviceable(lambda row: ndcg(row.ranks, len(row.right)))),
    Metric("match_rate", True, _over_serviceable(lambda row: row.is_match)),
    Metric("match_hit@1", True, _over_matches(lambda row: float(1 in row.ranks))),
    Metric("missed_rate", False, _over_serviceable(lambda row: row.decision is Decision.NONE)),
    Metric("false_match_rate", False, _over_unserviceable(lambda row: row.is_match)),
    Metric("tokens", False, lambda rows: mean(row.tokens for row in rows), "tokens"),
    Metric("p50", False, _latency(0.50), "ms"),
    Metric("p95", False, _latency(0.95), "ms"),
)


def shown(value: float | None, metric: Metric) -> str:
    """A measure for people: `0.933`, `12.40 ms`, or `-` where it was not measured."""
    if value is None:
        return "-"
    return f"{value:.2f} {metric.unit}" if metric.unit else f"{value:.3f}"


Cost = Callable[[SearchAnswer, int], int]
"""The tokens that an answer takes as an agent gets it, of at most so many."""

# Known words, and one like no other: what is loaded for either on first use is not timed.
_WARM_UP = ("list all files", "xqzvkj")


def run(
    queries: QuerySet, view: View, *, cost: Cost, clock: Callable[[], float] = time.perf_counter
) -> Report:
    """Ask each query once; `clock` counts seconds."""
    for words in _WARM_UP:
        view.search(words)
    return Report(tuple(_row(q, view, cost, clock) for q in queries.queries), queries.skipped)


def _row(query: Query, view: View, cost: Cost, clock: Callable[[], float]) -> ReportRow:
    usual = view.settings.search.limit
    start = clock()
    answer = view.search(query.text, server=query.server, limit=max(usual, DEPTH))
    spent = clock() - start
    return ReportRow(
        id=query.id,
        query=query.text,
        server=query.server,
        right=tuple(map(str, query.tools)),
        found=tuple(str(hit.entry.key) for hit in answer.hits[:DEPTH]),
        decision=answer.decision,
        tokens=cost(replace(answer, hits=answer.hits[:usual]), view.settings.search.max_tokens),
        milliseconds=spent * 1000,
    )
