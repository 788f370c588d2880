"""Counts the uses of tools that were found by a search before, unless `search.learn` is off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from discovery_engine.search.usage import RecentFinds

if TYPE_CHECKING:
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.tools.model import ToolKey


class UseCounter:
    """Counts in `tasks`, so that no call waits for it; `clock` is Unix time in seconds."""

    def __init__(self, state: CatalogState, tasks: TaskGroup, clock: Callable[[], float]) -> None:
        self._state = state
        self._tasks = tasks
        self._clock = clock
        self._finds = RecentFinds()

    def record_found(self, keys: Iterable[ToolKey]) -> None:
        """A search has found these tools."""
        if self._state.view.settings.search.learn:
            self._finds.add(keys, self._clock())

    def record_call(self, key: ToolKey) -> None:
        """A tool was called, and succeeded."""
        if self._finds.consume(key, self._clock()):
            self._tasks.start_soon(self._state.count_use, key)
