"""The current view of an engine, or what a scope shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discovery_engine.runtime.rate_limits import CallQuota
from discovery_engine.view.scope import ShownView

if TYPE_CHECKING:
    from discovery_engine.view.scope import Scope
    from discovery_engine.view.view import View


class CurrentView:
    """Each access is another look: keep what it returns to read consistently several times."""

    def __init__(self, snapshot: Callable[[], View], with_live: Callable[[View], View]) -> None:
        """`with_live` adds the states of servers to a snapshot."""
        self._snapshot = snapshot
        self._with_live = with_live

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
        """Of the calls that all clients of this view make together; None for any number."""
        return CallQuota.of_view(self._snapshot().settings)

    def within(self, scope: Callable[[View], Scope]) -> CurrentView:
        """What a scope shows of it; `scope` is looked up in each snapshot."""
        return CurrentView(ShownView(scope, self._snapshot).view, self._with_live)
