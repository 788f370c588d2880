"""The report of a run of the owner's queries: a row for each, and the measures over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.evaluation.metrics import (
    DEPTH,
    mean,
    ndcg,
    percentile,
    ranks_of,
    recall,
    reciprocal_rank,
)
from discovery_engine.view.search_answers import Decision

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
        return ranks_of(self.found, set(self.right))

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
