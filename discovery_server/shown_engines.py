"""Shows each client of an engine the part that its token opens."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.view.scope import named_scope
from discovery_server.token_limits import NO_LIMITS, TokenLimits

if TYPE_CHECKING:
    from discovery_engine.engine import Engine, ScopedEngine

# Engines; each holds a byte for every tool of servers that it shows in part.
_MAX_CACHED_ENGINES = 64


_Key: TypeAlias = "tuple[str | None, TokenLimits, frozenset[str] | None]"


class ShownEngines:
    """The parts of one engine; each is kept, because it judges a server only when that changes."""

    def __init__(self, engine: Engine) -> None:
        self.whole = engine
        self._kept: OrderedDict[_Key, ScopedEngine] = OrderedDict()

    def of(
        self, view: str | None, limits: TokenLimits, principals: frozenset[str] | None
    ) -> ScopedEngine:
        """Return the part of the engine that a token shows.

        Args:
            view: The only view; None for all.
            limits: The only servers and tools.
            principals: The teams and the user that it stands for; None for the owner.

        Raises:
            ViewNotFoundError: If there is no such view now; with the nearest names.
        """
        if view is not None:
            named_scope(self.whole.settings, view)
        if not self.whole.settings.reserves:  # nothing is reserved
            principals = None
        if view is None and limits == NO_LIMITS and principals is None:
            return self.whole
        key = view, limits, principals
        engine = self._kept.pop(key, None) or self._made(*key)
        self._kept[key] = engine
        if len(self._kept) > _MAX_CACHED_ENGINES:
            self._kept.popitem(last=False)
        return engine

    def _made(
        self, view: str | None, limits: TokenLimits, principals: frozenset[str] | None
    ) -> ScopedEngine:
        engine: ScopedEngine = self.whole
        if principals is not None:
            engine = engine.visible_to(*principals)
        if view is not None:
            engine = engine.in_view(view)
        return engine if limits == NO_LIMITS else engine.within(limits.scope())
