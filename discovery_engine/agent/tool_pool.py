"""The tools that one client has at hand: those that are pinned, and those that searches found."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.agent.answer_rendering import PoolReport
from discovery_engine.tools.model import ToolKey

if TYPE_CHECKING:
    from discovery_engine.agent.exposed_tools import ExposedTools
    from discovery_engine.catalog import Entry
    from discovery_engine.config.serve_settings import ServeSettings
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.view.search_answers import SearchAnswer


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
        self, hits: Sequence[tuple[ToolKey, float]], rules: PoolRules, *, room: int | None = None
    ) -> PoolChange:
        """Add the tools of a search with their relevance, the best first.

        A tool that is in the pool already becomes fresh, and keeps the better score. If more are
        found than there is room for, the best are added. `room` is the limit less the tools that
        are listed anyway.
        """
        most = rules.limit if room is None else max(0, room)
        best = dict(hits[:most])
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

    def retain(self, predicate: Callable[[ToolKey], bool]) -> tuple[ToolKey, ...]:
        """Remove all that `predicate` rejects; returns what was removed."""
        gone = tuple(key for key in self._tools if not predicate(key))
        for key in gone:
            del self._tools[key]
        return gone

    def _evict(
        self, count: int, hits: Container[ToolKey], rules: PoolRules, now: float
    ) -> tuple[ToolKey, ...]:
        """Remove the `count` lightest tools that were not found just now."""

        def weight(key: ToolKey) -> tuple[float, float, ToolKey]:
            pooled = self._tools[key]
            age = (now - pooled.used_at) / rules.fresh_for
            weight = rules.score * pooled.score + rules.freshness * (1 - min(1.0, age))
            return weight, pooled.used_at, key

        candidates = (key for key in self._tools if key not in hits)
        lightest = heapq.nsmallest(count, candidates, key=weight)
        for key in lightest:
            del self._tools[key]
        return tuple(lightest)


class BoundTools:
    """The pool of one client, over the catalog as it is now."""

    def __init__(self, tools: ExposedTools, pool: ToolPool, rules: PoolRules) -> None:
        self._tools = tools
        self._pool = pool
        self._rules = rules

    def entries(self) -> list[Entry]:
        """The pinned ones, then those of the pool in the order in which they came."""
        return [*self._pinned(), *self._pooled()]

    def register(self, answers: Sequence[SearchAnswer]) -> PoolReport:
        """Put the hits of a search into the pool, the first of each query before the second."""
        pinned = {entry.key for entry in self._pinned()}
        self._pooled()  # first of all those leave that cannot be used any more
        relevances: dict[ToolKey, float] = {}
        for hit in filter(None, chain.from_iterable(zip_longest(*(a.hits for a in answers)))):
            relevances[hit.entry.key] = max(hit.relevance, relevances.get(hit.entry.key, 0.0))
        new = [pair for pair in relevances.items() if pair[0] not in pinned]
        change = self._add(new, len(pinned))
        listed = [key for key in relevances if key in pinned or key in self._pool]
        names = self._tools.names
        return PoolReport(
            names=names(listed),
            registered=tuple(names(change.registered).values()),
            evicted=tuple(names(change.evicted).values()),
            left_out=len(relevances) - len(listed),
            size=len(pinned) + len(self._pool),
            limit=self._rules.limit,
        )

    def use(self, entry: Entry) -> None:
        """A tool was called: it becomes fresh, if it is at hand."""
        self._pool.use(entry.key)

    def add(self, entry: Entry) -> None:
        """Have a tool at hand, as if a search had found that it fits exactly."""
        pinned = [pinned_entry.key for pinned_entry in self._pinned()]
        if entry.key not in pinned:
            self._pooled()
            self._add([(entry.key, 1.0)], len(pinned))

    def _add(self, hits: Sequence[tuple[ToolKey, float]], pinned: int) -> PoolChange:
        return self._pool.register(hits, self._rules, room=self._rules.limit - pinned)

    def _pinned(self) -> list[Entry]:
        """At most all but one of the tools that are listed: a search has to find something."""
        return self._tools.pinned()[: self._rules.limit - 1]

    def _pooled(self) -> list[Entry]:
        """The tools of the pool; those leave it that are gone, withheld or pinned."""
        pinned = {entry.key for entry in self._pinned()}
        self._pool.retain(lambda key: key not in pinned and self._tools.usable(key) is not None)
        return [entry for key in self._pool if (entry := self._tools.usable(key))]


def pool_rules(settings: ServeSettings) -> PoolRules:
    """The rules of a pool, as the owner sets them."""
    weights = settings.pool_weights
    return PoolRules(settings.pool_limit, weights.score, weights.freshness, settings.pool_fresh_for)
