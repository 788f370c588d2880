"""The tools that the searches of one client have put into its list of tools.

A tool weighs more the better it fitted a search, and the more recently it was found or called. The
lightest tools are evicted before the pool would exceed its limit.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Container, Iterator, Sequence

from msgspec import Struct

from discovery_engine.tools.model import ToolKey


class PoolRules(Struct, frozen=True):
    """How many tools a pool holds, and which it keeps."""

    limit: int = 15
    score: float = 0.7
    """The share of the relevance in a tool's weight."""
    freshness: float = 0.3
    fresh_for: float = 1800.0
    """Seconds in which the freshness of a tool falls from 1 to 0."""


class PoolChange(Struct, frozen=True):
    """The changes that a search made."""

    registered: tuple[ToolKey, ...] = ()
    evicted: tuple[ToolKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.registered or self.evicted)


class _Pooled(Struct):
    score: float
    used_at: float


class ToolPool:
    """The tools of one client, in the order in which they came."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tools: dict[ToolKey, _Pooled] = {}

    def __iter__(self) -> Iterator[ToolKey]:
        return iter(tuple(self._tools))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, key: object) -> bool:
        return key in self._tools

    def register(
        self, found: Sequence[tuple[ToolKey, float]], rules: PoolRules, *, room: int | None = None
    ) -> PoolChange:
        """Add the tools of a search with their relevance, the best first.

        A tool that is in the pool already becomes fresh, and keeps the better score. If more are
        found than there is room for, the best are added. `room` is the limit less the tools that
        are listed anyway.
        """
        most = rules.limit if room is None else max(0, room)
        best = dict(found[:most])
        new = [key for key in best if key not in self._tools]
        now = self._clock()
        evicted = self._evict(len(self._tools) + len(new) - most, best, rules, now)
        for key, score in best.items():
            if pooled := self._tools.get(key):
                pooled.score, pooled.used_at = max(pooled.score, score), now
            else:
                self._tools[key] = _Pooled(score, now)
        return PoolChange(tuple(new), evicted)

    def use(self, key: ToolKey) -> None:
        """A tool was called: it becomes fresh, if it is in the pool."""
        if pooled := self._tools.get(key):
            pooled.used_at = self._clock()

    def retain(self, kept: Callable[[ToolKey], bool]) -> tuple[ToolKey, ...]:
        """Remove all but `kept`; returns what was removed."""
        gone = tuple(key for key in self._tools if not kept(key))
        for key in gone:
            del self._tools[key]
        return gone

    def _evict(
        self, count: int, found: Container[ToolKey], rules: PoolRules, now: float
    ) -> tuple[ToolKey, ...]:
        """Remove the `count` lightest tools that were not found just now."""

        def weight(key: ToolKey) -> tuple[float, float, ToolKey]:
            pooled = self._tools[key]
            age = (now - pooled.used_at) / rules.fresh_for
            weight = rules.score * pooled.score + rules.freshness * (1 - min(1.0, age))
            return weight, pooled.used_at, key

        candidates = (key for key in self._tools if key not in found)
        lightest = heapq.nsmallest(count, candidates, key=weight)
        for key in lightest:
            del self._tools[key]
        return tuple(lightest)
