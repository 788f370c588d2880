"""What the clients of an engine are shown, by what their tokens open."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from discovery_engine.view.scope import named_scope
from discovery_server.token_limits import NO_LIMITS, TokenLimits

if TYPE_CHECKING:
    from discovery_engine.engine import Engine, ScopedEngine

_KEPT = 64  # engines; each holds a byte for every tool of servers that it shows in part


class ShownEngines:
    """The parts of one engine; each is kept, because it judges a server only when that changes."""

    def __init__(self, engine: Engine) -> None:
        self.whole = engine
        self._kept: OrderedDict[tuple[str | None, TokenLimits], ScopedEngine] = OrderedDict()

    def of(self, view: str | None, limits: TokenLimits) -> ScopedEngine:
        """What a token of a view, or of all, with these limits shows.

        Raises:
            ViewNotFoundError: If there is no such view now; with the nearest names.
        """
        if view is not None:
            named_scope(self.whole.settings, view)
        if view is None and limits == NO_LIMITS:
            return self.whole
        found = self._kept.pop((view, limits), None) or self._made(view, limits)
        self._kept[view, limits] = found
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def _made(self, view: str | None, limits: TokenLimits) -> ScopedEngine:
        shown = self.whole if view is None else self.whole.in_view(view)
        return shown if limits == NO_LIMITS else shown.within(limits.scope())
