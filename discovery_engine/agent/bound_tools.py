"""The tools that one client has at hand: those that are pinned, and those that searches found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from discovery_engine.agent.render.pool import PoolReport
from discovery_engine.agent.tool_pool import PoolChange, PoolRules, ToolPool

if TYPE_CHECKING:
    from discovery_engine.agent.exposed_tools import ExposedTools
    from discovery_engine.catalog import Entry
    from discovery_engine.config.serve_settings import ServeSettings
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.view.search_answers import SearchAnswer


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

    def _add(self, found: Sequence[tuple[ToolKey, float]], pinned: int) -> PoolChange:
        return self._pool.register(found, self._rules, room=self._rules.limit - pinned)

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
