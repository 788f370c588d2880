"""Which surface a client has, and what is kept for it between its requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.agent.definitions import helpers_beside_tools, meta_tools
from discovery_engine.agent.exposed_tools import ExposedTools
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.tool_pool import ToolPool
from discovery_engine.rpc.protocol import MODERN_VERSIONS
from discovery_server.tool_surface import (
    DirectSurface,
    DynamicSurface,
    MetaSurface,
    ToolSurface,
)

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServeMode, Settings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

_LIST_CHANGED = "notifications/tools/list_changed"


class ClientSession:
    """What is kept for one client as long as its connection lasts."""

    def __init__(self, tools_changed: Callable[[], bool]) -> None:
        """`tools_changed` notifies the client at once, and returns whether there is a way to."""
        self.tools_changed = tools_changed
        self.pool = ToolPool()


class ToolSurfaces:
    """The surfaces under the present settings."""

    def __init__(
        self,
        engine: ScopedEngine,
        on_list_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_list_changed` is called after a client's list of tools was changed by a search."""
        self._engine = engine
        self._on_list_changed = on_list_changed
        self._settings: Settings | None = None
        self._used: object = None
        self._use_settings()

    def of(
        self, version: str, session: ClientSession | None = None, client: Client | None = None
    ) -> ToolSurface:
        """The surface of a client, for one of its requests.

        A list that changes with a client's own requests needs a session to keep it in, and the
        protocol of 2026-07-28 forbids it.
        """
        self._use_settings()
        match self.mode(version):
            case "direct":
                return self._direct
            case "dynamic" if session:
                changed = partial(self._announce, session, client)
                return DynamicSurface(self._exposed, session.pool, changed)
        return self._meta

    def mode(self, version: str) -> ServeMode:
        """The mode of clients of that version."""
        mode = self._engine.settings.server.mode
        return "meta" if mode == "dynamic" and version in MODERN_VERSIONS else mode

    def instructions(self, version: str) -> str:
        """How a client of that version uses the servers known at this moment."""
        mode = self.mode(version)
        if mode == "meta":
            return render_instructions(self._engine.view)
        self._use_settings()
        return render_instructions(self._exposed.view, mode)

    def _announce(self, session: ClientSession, client: Client | None) -> None:
        """Notify the client, if need be on the stream of its request."""
        if not session.tools_changed() and client:
            client.notify(_LIST_CHANGED, {})
        self._on_list_changed()

    def _use_settings(self) -> None:
        settings = self._engine.settings
        if settings is self._settings:
            return
        self._settings = settings
        tools, server = meta_tools(settings), settings.server
        used = tuple(tools), server.expose, server.pins
        if used != self._used:
            self._used = used
            helpers = helpers_beside_tools(settings)
            self._meta = MetaSurface(self._engine, tools)
            self._exposed = ExposedTools(self._engine, server.expose, server.pins, helpers)
            self._direct = DirectSurface(self._exposed)
