"""What clients of the gateway can ask for, independent of the transport and of any SDK.

Requests and results are plain JSON. Results of upstream tools pass through unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.agent.caller import Caller, OnProgress
from discovery_engine.agent.definitions import meta_tools
from discovery_engine.agent.dispatch import call
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.limits import NAME_LENGTH, shortened
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import (
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
)
from discovery_server.envelope import IMPLEMENTATION, completed
from discovery_server.eras import negotiated
from discovery_server.offerings import LISTS, Offerings
from discovery_server.request_params import check_params, methods_of
from discovery_server.subscriptions import Subscriptions

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.rpc.client import Client, Continuation

_WAITING = frozenset(
    {"tools/call", "subscriptions/listen", "resources/subscribe", "resources/unsubscribe"}
)
_OF_OFFERINGS = frozenset({*LISTS, "resources/read", "prompts/get", "completion/complete"})
_SUBSCRIBING = ("resources/subscribe", "resources/unsubscribe")


class ClientRequest(Struct, frozen=True):
    """A request of a client; the transport has checked that its era allows it now."""

    method: str
    params: JSONObject
    version: str
    """Of the protocol."""
    client: Client | None = None
    """None if nothing is known of it; it cannot be asked then."""
    continuation: Continuation | None = None
    """The client's responses, with which it continues a call."""


class Gateway:
    """Answers the requests of clients from an engine."""

    def __init__(self, engine: Engine, subscriptions: Subscriptions | None = None) -> None:
        """`subscriptions` say which lists can change, and notify clients of that."""
        self._engine = engine
        self._offerings = Offerings(engine)
        self.subscriptions = Subscriptions() if subscriptions is None else subscriptions
        self._tools = meta_tools(engine.settings)
        tools = {"tools": [tool.definition for tool in self._tools.values()]}
        self._fixed = {
            (method, version): completed(method, result, version)
            for method, result in {"tools/list": tools}.items()
            for version in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)
        }

    @property
    def instructions(self) -> str:
        """How to use the servers known at this moment."""
        return render_instructions(self._engine.view)

    async def handle(
        self, request: ClientRequest, on_progress: OnProgress | None = None
    ) -> JSONObject:
        """The result of a request.

        Raises:
            RpcError: If it is answered with an error.
        """
        result = self.answer(request)
        return await self.serve(request, on_progress) if result is None else result

    def answer(self, request: ClientRequest) -> JSONObject | None:
        """The result of a request that needs no waiting; None if it needs some.

        Raises:
            RpcError: If it is answered with an error.
        """
        method, params, version = request.method, request.params, request.version
        is_served = method not in _SUBSCRIBING or self.subscriptions.has_updates
        if method not in methods_of(version) or not is_served:
            raise method_not_found(method)
        check_params(method, params, version)
        if method == "tools/call":
            self._require_meta_tool(params["name"])
        if method in _WAITING:
            return None
        if method in _OF_OFFERINGS:
            result = self._offerings.answer(request, self.instructions)
            return None if result is None else completed(method, result, version)
        fixed = self._fixed.get((method, version))
        return fixed or completed(method, self._current(request), version)

    async def serve(
        self, request: ClientRequest, on_progress: OnProgress | None = None
    ) -> JSONObject:
        """The result of a request that `answer` has checked, and that has to wait.

        Raises:
            RpcError: If it is answered with an error.
        """
        if request.method == "tools/call":
            return await self._call_tool(request, on_progress)
        result = await self._offerings.serve(request, on_progress)
        return completed(request.method, result, request.version)

    async def _call_tool(
        self, request: ClientRequest, on_progress: OnProgress | None
    ) -> JSONObject:
        tool = self._tools[request.params["name"]]
        caller = Caller(request.client, on_progress, request.continuation)
        result = await call(self._engine, tool, request.params.get("arguments") or {}, caller)
        return completed("tools/call", result, request.version)

    def input_schema(self, tool: str) -> JSONObject | None:
        """The schema of a tool's arguments; None if there is no such tool."""
        found = self._tools.get(tool)
        return found.input_schema if found else None

    def _require_meta_tool(self, name: str) -> None:
        if name not in self._tools:
            names = ", ".join(self._tools)
            hint = f"this server has {names}; other tools are called through execute_tool"
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {_shown(name)}; {hint}")

    def _current(self, request: ClientRequest) -> JSONObject:
        match request.method:
            case "initialize":
                return self._initialized(request.params["protocolVersion"])
            case "server/discover":
                return self._discovered()
            case _:
                return {}  # ping, logging/setLevel

    def _initialized(self, requested: str) -> JSONObject:
        return {
            "protocolVersion": negotiated(requested),
            "capabilities": self._capabilities(),
            "serverInfo": IMPLEMENTATION,
            "instructions": self.instructions,
        }

    def _discovered(self) -> JSONObject:
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": self._capabilities(),
            "instructions": self.instructions,
        }

    def _capabilities(self) -> JSONObject:
        changing = self.subscriptions.changing
        return {
            "completions": {},
            "logging": {},
            "prompts": {"listChanged": "prompts" in changing},
            "resources": {
                "subscribe": self.subscriptions.has_updates,
                "listChanged": "resources" in changing,
            },
            "tools": {"listChanged": "tools" in changing},
        }


def method_not_found(method: str) -> RpcError:
    """The error of a method that is not served."""
    return RpcError(METHOD_NOT_FOUND, "Method not found", shortened(method, NAME_LENGTH))


def _shown(name: str) -> str:
    return repr(shortened(name, NAME_LENGTH))
