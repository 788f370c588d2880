"""Counts of calls and their durations, and what they amount to: means and quantiles.

A duration is counted in one of 141 buckets, each about 12 % wider than the one before. So a count
takes constant space, two can be added, and a quantile is at most 7 % off, or 0.1 ms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.store.call_log.log_entry import NO_ERRORS

_STEPS = (
    *(1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8),
    *(3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0, 9.0),
)
"""Preferred numbers (R20): 1, 2.5 and 5 are among them, which are the usual bounds elsewhere."""
BOUNDS: tuple[float, ...] = tuple(
    round(step * 10.0**power, 9) for power in range(-4, 3) for step in _STEPS
)
"""The upper bound of each bucket in seconds, from 0.1 ms to 900 s; one more bucket is beyond."""


class Tally(Struct):
    """The counts of one tool, or of several together."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    queue_seconds: float = 0.0
    first_called_at: float = 0.0
    """Unix time in seconds; 0 for never."""
    last_called_at: float = 0.0
    buckets: dict[int, int] = field(default_factory=dict)
    """The number of calls by duration; a key is the index of a bucket in `BOUNDS`."""
    outcomes: dict[str, int] = field(default_factory=dict)

    def count(self, outcome: str, seconds: float, queue_seconds: float, at: float) -> None:
        """Count one call that ended at that Unix time."""
        self.calls += 1
        if outcome not in NO_ERRORS:
            self.errors += 1
        self.seconds += seconds
        self.queue_seconds += queue_seconds
        self.first_called_at = min(self.first_called_at or at, at)
        self.last_called_at = max(self.last_called_at, at)
        bucket = bisect_left(BOUNDS, seconds)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def add(self, other: Tally) -> None:
        """Add what another one has counted."""
        self.calls += other.calls
        self.errors += other.errors
        self.seconds += other.seconds
        self.queue_seconds += other.queue_seconds
        first = other.first_called_at or self.first_called_at
        self.first_called_at = min(self.first_called_at or first, first)
        self.last_called_at = max(self.last_called_at, other.last_called_at)
        _add(self.buckets, other.buckets)
        _add(self.outcomes, other.outcomes)

    def quantile(self, share: float) -> float | None:
        """The duration in seconds within which that share of the calls ended; None without any.

        It is the geometric middle of its bucket, from which neither end is far.
        """
        rank = share * sum(self.buckets.values())
        passed = 0
        for bucket, count in sorted(self.buckets.items()):
            passed += count
            if passed >= rank:
                return _middle(bucket)
        return None

    def within(self, bound: float) -> int:
        """Return the number of calls that took at most `bound` seconds; it is one of `BOUNDS`."""
        last = bisect_left(BOUNDS, bound)
        return sum(count for bucket, count in self.buckets.items() if bucket <= last)


class ToolMetrics(Struct, frozen=True):
    """The calls of one tool, or of all tools of a server."""

    server: str
    """Empty for calls of servers and tools that do not exist."""
    tool: str
    """Empty for all of the server."""
    calls: int
    errors: int
    mean_seconds: float | None
    p50_seconds: float | None
    """Half of the calls took at most so long."""
    p95_seconds: float | None
    last_called_at: float | None
    """Unix time in seconds."""
    since: float | None
    """Unix time in seconds at which the first of these calls was counted."""
    errors_since: float | None
    """Unix time in seconds at which the errors were last reset, or else the same as `since`."""

    @classmethod
    def of(
        cls, server: str, tool: str, tally: Tally, since: float | None, errors_since: float | None
    ) -> ToolMetrics:
        return cls(
            server,
            tool,
            tally.calls,
            tally.errors,
            tally.seconds / tally.calls if tally.calls else None,
            tally.quantile(0.5),
            tally.quantile(0.95),
            tally.last_called_at or None,
            since,
            errors_since,
        )

    def to_json(self) -> JSONObject:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class ServerMetrics(Struct, frozen=True):
    """The calls of one server, and of each of its tools."""

    total: ToolMetrics
    tools: tuple[ToolMetrics, ...]
    """The tools in the order of names; resources and prompts by their keys."""

    def to_json(self) -> JSONObject:
        return self.total.to_json() | {"tools": [tool.to_json() for tool in self.tools]}


class CountedTool(Struct, frozen=True):
    """The stored counts of one tool."""

    server: str
    tool: str
    tally: Tally
    since: float
    errors_since: float


def metrics_of(counted: Iterable[CountedTool]) -> tuple[ServerMetrics, ...]:
    """The metrics of servers, in the order of names."""
    by_server: dict[str, list[CountedTool]] = {}
    for count in counted:
        by_server.setdefault(count.server, []).append(count)
    return tuple(_of_server(name, by_server[name]) for name in sorted(by_server))


def _of_server(server: str, counted: list[CountedTool]) -> ServerMetrics:
    total = Tally()
    for count in counted:
        total.add(count.tally)
    since = min(count.since for count in counted)
    errors_since = max(count.errors_since for count in counted)
    tools = (
        ToolMetrics.of(server, count.tool, count.tally, count.since, count.errors_since)
        for count in sorted(counted, key=lambda count: count.tool)
    )
    return ServerMetrics(ToolMetrics.of(server, "", total, since, errors_since), tuple(tools))


def _middle(bucket: int) -> float:
    if bucket == 0:
        return BOUNDS[0]
    if bucket == len(BOUNDS):
        return BOUNDS[-1]
    return math.sqrt(BOUNDS[bucket - 1] * BOUNDS[bucket])


def _add(
    counts: dict[int, int] | dict[str, int], more: Mapping[int, int] | Mapping[str, int]
) -> None:
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count  # type: ignore[index,arg-type]
