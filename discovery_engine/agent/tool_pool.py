"""The tools listed for one client: the pinned ones, and a bounded pool of those searches found."""

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
    from discovery_engine.view.search_answers import SearchAnswer


class PoolRules(Struct, frozen=True):
    """The size of a pool and the weights that decide which tools it keeps."""

    limit: int = 15
    score: float = 0.7
    """The share of a tool's relevance in its weight."""
    freshness: float = 0.3
    """The share of a tool's freshness in its weight."""
    fresh_for: float = 1800.0
    """The seconds, or units of the pool's clock, in which freshness falls from 1 to 0."""


class PoolChange(Struct, frozen=True):
    """The tools that a search added to a pool and removed from it."""

    registered: tuple[ToolKey, ...] = ()
    evicted: tuple[ToolKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.registered or self.evicted)


class _Pooled(Struct):
    score: float
    used_at: float


class ToolPool:
    """The pool of one client, in the order of registration."""

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
        """Add the hits of a search, each a tool and its relevance, the best first.

        A tool in the pool becomes fresh and keeps the higher score. Only the first hits are added
        if there are more than the pool holds; the lightest other tools are evicted.

        Args:
            hits: Pairs of tool and relevance (0 to 1).
            rules: The limit and the weights.
            room: The size of the pool if pinned tools use a part of the limit; `rules.limit` if
                None.
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
        """Make a called tool fresh if it is in the pool."""
        if pooled := self._tools.get(key):
            pooled.used_at = self._clock()

    def retain(self, predicate: Callable[[ToolKey], bool]) -> tuple[ToolKey, ...]:
        """Remove the tools that `predicate` rejects, and return them."""
        gone = tuple(key for key in self._tools if not predicate(key))
        for key in gone:
            del self._tools[key]
        return gone

    def _evict(
        self, count: int, hits: Container[ToolKey], rules: PoolRules, now: float
    ) -> tuple[ToolKey, ...]:
        """Remove the `count` lightest tools that are not among `hits`, and return them."""

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
    """Combines the pool of one client with the pinned and usable tools of the current catalog."""

    def __init__(self, tools: ExposedTools, pool: ToolPool, rules: PoolRules) -> None:
        self._tools = tools
        self._pool = pool
        self._rules = rules

    def entries(self) -> list[Entry]:
        """Return the pinned tools, then those of the pool in the order of registration."""
        return [*self._pinned(), *self._pooled()]

    def register(self, answers: Sequence[SearchAnswer]) -> PoolReport:
        """Add the hits of queries to the pool: the first hit of each query, then the second."""
        pinned = {entry.key for entry in self._pinned()}
        self._pooled()  # makes room by removing tools that are no longer usable
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
        """Make a called tool fresh if it is in the pool."""
        self._pool.use(entry.key)

    def add(self, entry: Entry) -> None:
        """Add a tool to the pool with the relevance 1; a no-op for a pinned tool."""
        pinned = [pinned_entry.key for pinned_entry in self._pinned()]
        if entry.key not in pinned:
            self._pooled()
            self._add([(entry.key, 1.0)], len(pinned))

    def _add(self, hits: Sequence[tuple[ToolKey, float]], pinned: int) -> PoolChange:
        return self._pool.register(hits, self._rules, room=self._rules.limit - pinned)

    def _pinned(self) -> list[Entry]:
        """Return the pinned tools, at most `limit - 1`, so that a search can add one."""
        return self._tools.pinned()[: self._rules.limit - 1]

    def _pooled(self) -> list[Entry]:
        """Return the tools of the pool, after removing those that are gone, hidden or pinned."""
        pinned = {entry.key for entry in self._pinned()}
        self._pool.retain(lambda key: key not in pinned and self._tools.usable(key) is not None)
        return [entry for key in self._pool if (entry := self._tools.usable(key))]


def pool_rules(settings: ServeSettings) -> PoolRules:
    """Return the pool rules of the settings."""
    weights = settings.pool_weights
    return PoolRules(settings.pool_limit, weights.score, weights.freshness, settings.pool_fresh_for)
