"""Which surface a client has, and what is kept for it between its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.agent.instructions import render_instructions
from discovery_engine.rpc.protocol import MODERN_VERSIONS
from discovery_server.tool_pool import ToolPool
from discovery_server.tool_surface import (
    DirectSurface,
    DynamicSurface,
    ExposedTools,
    MetaSurface,
    ToolSurface,
)

if TYPE_CHECKING:
    from discovery_engine.agent.definitions import MetaTool
    from discovery_engine.config.settings import ServeMode
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

_HELPERS = ("read_result",)
"""Meta-tools that are needed in each mode, if they are there."""
LIST_CHANGED = "notifications/tools/list_changed"


class ClientSession:
    """What is kept for one client as long as its connection lasts."""

    def __init__(self, notify: Callable[[str], bool]) -> None:
        """`notify` sends the client a notification, and returns whether there is a way to."""
        self.notify = notify
        self.pool = ToolPool()


class ToolSurfaces:
    """The surfaces under the present settings."""

    def __init__(
        self,
        engine: ScopedEngine,
        meta_tools: Mapping[str, MetaTool],
        on_list_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_list_changed` is called after a client's list of tools was changed by a search."""
        self._engine = engine
        self._meta = MetaSurface(engine, meta_tools)
        self._helpers = {name: meta_tools[name] for name in _HELPERS if name in meta_tools}
        self._on_list_changed = on_list_changed
        self._expose_and_pins: object = None
        self._use_settings()

    def of(
        self, version: str, session: ClientSession | None = None, client: Client | None = None
    ) -> ToolSurface:
        """The surface of a client, for one of its requests.

        A list that changes with a client's own requests needs a session to keep it in, and the
        protocol of 2026-07-28 forbids it.
        """
        match self.mode(version):
            case "direct":
                self._use_settings()
                return self._direct
            case "dynamic" if session:
                self._use_settings()
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
        if not session.notify(LIST_CHANGED) and client:
            client.notify(LIST_CHANGED, {})
        self._on_list_changed()

    def _use_settings(self) -> None:
        settings = self._engine.settings.server
        used = settings.expose, settings.pins
        if used != self._expose_and_pins:
            self._expose_and_pins = used
            self._exposed = ExposedTools(self._engine, *used, self._helpers)
            self._direct = DirectSurface(self._exposed)
