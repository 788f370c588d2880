"""Which surface a client has, and what is kept for it between its requests."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from discovery_engine._util.text import one_line
from discovery_engine.agent.definitions import helpers_beside_tools, meta_tools
from discovery_engine.agent.exposed_tools import ExposedTools
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.tool_pool import ToolPool
from discovery_engine.rpc.protocol import CLIENT_INFO, MODERN_VERSIONS
from discovery_server.tool_surface import (
    DirectSurface,
    DynamicSurface,
    MetaSurface,
    ToolSurface,
)

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

_LIST_CHANGED = "notifications/tools/list_changed"
_LONGEST_NAME = 64  # characters of what a client calls itself


def _introduced_name(params: JSONObject) -> str:
    meta = params.get("_meta")
    info = meta.get(CLIENT_INFO) if isinstance(meta, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def _digest(client: str) -> str:
    return sha256(client.encode()).hexdigest()[:8]


class ClientSession:
    """The state of one client, kept as long as its connection lasts."""

    def __init__(self, tools_changed: Callable[[], bool], client: str | None = None) -> None:
        """A client about which nothing else is known yet.

        Args:
            tools_changed: Notifies it at once, and returns whether there is a way to.
            client: Its id; empty for one of several that cannot be told apart, None for the only
                one of a connection.
        """
        self.tools_changed = tools_changed
        self.pool = ToolPool()
        self.client_name = ""
        """The name by which it introduced itself; text of a stranger."""
        # The id of a client over HTTP is the key of its session, so only a digest is shown.
        mark = secrets.token_hex(4) if client is None else client and _digest(client)
        self._mark = f" ({mark})" if mark else ""

    def label(self, params: JSONObject) -> str:
        """Names the client for the owner, and distinguishes it from others, as far as possible.

        `params` are those of its request, which introduce it since 2026-07-28.
        """
        name = self.client_name or _introduced_name(params)
        return f"{one_line(name)[:_LONGEST_NAME] or 'a client'}{self._mark}"


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
