"""Calls by spans of equal length: what a chart of the last hour shows."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.store.call_log.tally import Tally

MOST_SPANS = 1_440
"""A day by the minute."""


class TimeSpan(Struct, frozen=True):
    """The calls that ended within a span of time."""

    at: float
    """Unix time in seconds at which it begins."""
    calls: int
    errors: int
    p50_seconds: float | None
    """None without a call."""
    p95_seconds: float | None

    def to_json(self) -> JSONObject:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Timeline(Struct, frozen=True):
    """The calls between two moments, by spans of time."""

    spans: tuple[TimeSpan, ...]
    """All spans of the time, the oldest first."""
    total: TimeSpan
    """All of it as one span."""


def timeline(
    counts: Iterable[tuple[float, Tally]], *, since: float, until: float, step: float
) -> Timeline:
    """Add up counts by spans.

    Args:
        counts: Calls of short times, by the moment (Unix time in seconds) at which each begins.
        since: Where the first span begins; earlier counts are left out.
        until: Where the last span ends or lies; counts from then on are left out.
        step: Seconds of a span.

    Raises:
        ValueError: If there would be no span, or more than `MOST_SPANS`.
    """
    count = math.ceil((until - since) / step) if step > 0 else 0
    if not 0 < count <= MOST_SPANS:
        text = f"a timeline has 1 to {MOST_SPANS:,} spans, not {count:,}"
        raise ValueError(text)
    tallies = [Tally() for _ in range(count)]
    total = Tally()
    for at, tally in counts:
        if since <= at < until:
            # A division may round up to the end of the last span.
            tallies[min(int((at - since) / step), count - 1)].add(tally)
            total.add(tally)
    spans = tuple(_span(since + index * step, tally) for index, tally in enumerate(tallies))
    return Timeline(spans, _span(since, total))


def shortest_step(length: float) -> int:
    """Return the shortest step of a timeline of so many minutes, hours, …, in that unit."""
    return math.ceil(length / MOST_SPANS)


def spans_until(now: float, *, seconds: float, step: float) -> tuple[float, float]:
    """Return the begin of the first and the end of the last span that cover the last `seconds`.

    A span begins at a multiple of its length, so that a later timeline has the same ones.

    Raises:
        ValueError: If `step` is not positive.
    """
    if step <= 0:
        text = f"the step of a timeline is a positive number of seconds, not {step:g}"
        raise ValueError(text)
    until = math.floor(now / step + 1) * step
    return until - math.ceil(seconds / step) * step, until


def _span(at: float, tally: Tally) -> TimeSpan:
    median, high = tally.quantile(0.5), tally.quantile(0.95)
    return TimeSpan(at, tally.calls, tally.errors, median, high)
