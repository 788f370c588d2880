"""The current view of an engine, or what a scope shows of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine.runtime.rate_limits import CallQuota
from discovery_engine.runtime.searcher_source import SearcherSource
from discovery_engine.view.scope import ShownView

if TYPE_CHECKING:
    from discovery_engine.runtime.visible_views import VisibleViews
    from discovery_engine.view.scope import Scope
    from discovery_engine.view.view import View


class CurrentView:
    """Each access is another look: keep what it returns to read consistently several times."""

    def __init__(self, snapshot: Callable[[], View], with_live: Callable[[View], View]) -> None:
        """`with_live` adds the states of servers to a snapshot."""
        self._snapshot = snapshot
        self._with_live = with_live

    @cached_property
    def _visible(self) -> VisibleViews:
        from discovery_engine.runtime.visible_views import VisibleViews  # noqa: PLC0415 - seldom used

        return VisibleViews(self._snapshot)

    @property
    def snapshot(self) -> View:
        """Without the states of servers."""
        return self._snapshot()

    @property
    def live(self) -> View:
        """With the states of servers as they are now."""
        return self._with_live(self._snapshot())

    @property
    def quota(self) -> CallQuota | None:
        """The quota of calls that all clients of this view make together; None for any number."""
        return CallQuota.of_view(self._snapshot().settings)

    def visible_to(self, principals: frozenset[str]) -> CurrentView:
        """Return the part of the view that these teams and users see."""
        return CurrentView(partial(self._visible.view, principals), self._with_live)

    @property
    def searched(self) -> View:
        """The snapshot with all that searches of it look at, though a view may show less."""
        snapshot = self._snapshot()
        return snapshot.whole or snapshot

    async def prepare_search(self) -> None:
        """Make the searcher of the current snapshot in a thread; no-op if it is made."""
        # Again if a listing came in between; what the third leaves to do is little.
        for _ in range(3):
            source = self._snapshot().open_searcher
            if not isinstance(source, SearcherSource) or source.is_ready:
                return
            await anyio.to_thread.run_sync(source)

    def within(self, scope: Callable[[View], Scope]) -> CurrentView:
        """Return the part of the view that a scope shows; `scope` is looked up in each snapshot."""
        return CurrentView(ShownView(scope, self._snapshot).view, self._with_live)
