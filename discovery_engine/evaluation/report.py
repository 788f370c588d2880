"""Runs evaluation queries and reports a row for each, and metrics over all rows."""

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
"""The number of ranks that count; a hit below them counts as not found."""

T = TypeVar("T")

Ranks = Sequence[int]


def _ranks_of(hits: Iterable[T], right: Container[T]) -> tuple[int, ...]:
    """Return the ranks of the right hits among the first `DEPTH`, from 1, ascending."""
    return tuple(rank for rank, hit in enumerate(hits, 1) if hit in right and rank <= DEPTH)


def recall(ranks: Ranks, right: int, depth: int) -> float:
    """Return the share of the `right` tools (a count) that rank among the first `depth`."""
    return sum(rank <= depth for rank in ranks) / right


def reciprocal_rank(ranks: Ranks) -> float:
    """Return 1 divided by the best rank of a right tool; 0 if there is none."""
    return 1 / min(ranks) if ranks else 0.0


def ndcg(ranks: Ranks, right: int) -> float:
    """Return the normalized discounted cumulative gain (NDCG) with binary relevance, 0 to 1."""
    best = _gain(range(1, min(right, DEPTH) + 1))
    return min(_gain(ranks) / best, 1.0)


def mean(values: Iterable[float]) -> float | None:
    """Return the arithmetic mean; None without values, because unmeasured is not zero."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return a percentile by the nearest-rank method, `share` from 0 to 1; None without values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else None


def _gain(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)


_CLEARNESS = {Decision.NONE: 1.0, Decision.UNSURE: 0.5, Decision.MATCH: 0.0}
"""The scores of answers to a query that no tool can serve."""

Totals = Mapping[str, float | None]
"""Values by metric name; None for metrics that the queries do not measure."""


class ReportRow(Struct, frozen=True, dict=True):
    """One query and its answer."""

    id: str
    query: str
    server: str | None
    right: tuple[str, ...]
    """The right tools as `server:tool`; empty if the right answer is that nothing fits."""
    found: tuple[str, ...]
    """The first `DEPTH` tools of the answer; empty if nothing fits."""
    decision: Decision
    tokens: int
    """The estimated number of tokens of the answer."""
    milliseconds: float

    @property
    def is_serviceable(self) -> bool:
        """Return True if a tool can serve the query."""
        return bool(self.right)

    @property
    def is_match(self) -> bool:
        return self.decision is Decision.MATCH

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks of the right tools, from 1, ascending."""
        return _ranks_of(self.found, set(self.right))

    @property
    def is_good(self) -> bool:
        """Return True if a right tool was found or, for an unserviceable query, nothing matched."""
        return bool(self.ranks) if self.is_serviceable else not self.is_match

    @property
    def standing(self) -> str:
        """Return the ranks of the right tools; without any, `not found` or the decision."""
        if self.ranks:
            return ", ".join(map(str, self.ranks))
        return "not found" if self.is_serviceable and self.found else self.decision.value

    @property
    def score(self) -> float:
        """Return the quality of the answer from 0 to 1: NDCG, or that of `_CLEARNESS`."""
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
    """A named measure over all rows of a report."""

    name: str
    more_is_better: bool
    measure: Callable[[Sequence[ReportRow]], float | None]
    unit: str = ""
    """The unit, such as `ms`; empty for shares from 0 to 1."""


class Report(Struct, frozen=True, dict=True):
    """The rows of all queries that were run, and the ids of the others."""

    rows: tuple[ReportRow, ...]
    skipped: tuple[str, ...] = ()
    """The ids of queries that were not run, because their tools are missing."""

    @cached_property
    def totals(self) -> Totals:
        """Return the value of each metric of `METRICS`, in that order."""
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
    """Format a value for display: `0.933`, `12.40 ms`, or `-` if it was not measured."""
    if value is None:
        return "-"
    return f"{value:.2f} {metric.unit}" if metric.unit else f"{value:.3f}"


Cost = Callable[[SearchAnswer, int], int]
"""Returns the number of tokens of a rendered answer; the second argument is its token limit."""

# Common words and an unknown one, so that no query is timed with what these load on first use.
_WARM_UP = ("list all files", "xqzvkj")


def run(
    queries: QuerySet, view: View, *, cost: Cost, clock: Callable[[], float] = time.perf_counter
) -> Report:
    """Run each query once; `clock` returns seconds."""
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
