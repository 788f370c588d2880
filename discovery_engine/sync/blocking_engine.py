"""The synchronous engine: each method runs the method of `Engine` on an event loop and waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.engine import open_engine as open_async_engine
from discovery_engine.sync.blocking_call import LOOP, MIRRORS, P, run_blocking, with_face
from discovery_engine.sync.mirrors import EngineMirror, ScopedEngineMirror, ToolsetMirror
from discovery_engine.sync.sync_client import AnyClient

if TYPE_CHECKING:
    from discovery_engine.agent.toolset import ToolsetMode
    from discovery_engine.events import Event, Subscription
    from discovery_engine.tools.client_names import Style


def _opener(
    open_async: Callable[P, AbstractAsyncContextManager[Engine]],
) -> Callable[P, AbstractContextManager[SyncEngine]]:
    @contextmanager
    def open_engine(*args: P.args, **kwargs: P.kwargs) -> Iterator[SyncEngine]:
        with (
            LOOP as portal,
            portal.wrap_async_context_manager(open_async(*args, **kwargs)) as engine,
        ):
            yield SyncEngine(engine, portal)

    with_face(open_engine, open_async)
    return open_engine


open_engine = _opener(open_async_engine)
"""Opens an engine in a `with` statement, with the parameters of `discovery_engine.open_engine`."""


class SyncToolset(ToolsetMirror):
    """Synchronous `Toolset`; made by `SyncEngine.toolset`."""

    wrapped: Toolset

    @property
    def mode(self) -> ToolsetMode:
        return self.wrapped.mode

    def as_callables(self) -> list[Callable[..., str]]:
        """Return the tools as plain functions; see `Toolset.as_callables`."""
        return [
            self._function(function) for function in self.portal.call(self.wrapped.as_callables)
        ]

    def _function(self, function: Callable[..., Any]) -> Callable[..., str]:
        def call(*args: Any, **kwargs: Any) -> str:
            # `partial`, as an argument of the tool may be named like one of `run_blocking`.
            text: str = run_blocking(self.portal, partial(function, *args, **kwargs))
            return text

        return with_face(call, function)


class SyncScopedEngine(ScopedEngineMirror):
    """Synchronous `ScopedEngine`."""

    wrapped: ScopedEngine

    def toolset(
        self,
        *,
        view: str | None = None,
        mode: ToolsetMode = "meta",
        limit: int | None = None,
        client: AnyClient | None = None,
        name_style: Style | None = None,
    ) -> SyncToolset:
        """Make a toolset; see `ScopedEngine.toolset`."""
        if client:
            self.portal.call(self.wrapped.expect_client, client.capabilities)
        make = partial(
            self.wrapped.toolset, view=view, mode=mode, limit=limit, name_style=name_style
        )
        return SyncToolset(self.portal.call(make), self.portal, client)

    @contextmanager
    def subscribe(self, *kinds: type[Event]) -> Iterator[Iterator[Event]]:
        """Subscribe to events: `with engine.subscribe() as events: for event in events`.

        See `ScopedEngine.subscribe`.
        """
        context = self.wrapped.subscribe(*kinds)
        subscription = self.portal.call(context.__enter__)
        try:
            yield self._events(subscription)
        finally:
            self.portal.call(context.__exit__, None, None, None)

    def _events(self, subscription: Subscription) -> Iterator[Event]:
        while True:
            yield run_blocking(self.portal, cast("Callable[[], Any]", subscription.__anext__))


class SyncEngine(EngineMirror, SyncScopedEngine):
    """Synchronous `Engine`; made by `open_engine`."""


MIRRORS |= {Toolset: SyncToolset, ScopedEngine: SyncScopedEngine, Engine: SyncEngine}


def sync_toolset_of(
    source: SyncScopedEngine | SyncToolset, *, name_style: Style | None = None
) -> SyncToolset:
    """Return a toolset unchanged, or make one of an engine in the mode `select`, for adapters."""
    if isinstance(source, SyncToolset):
        return source
    return source.toolset(mode="select", name_style=name_style)
