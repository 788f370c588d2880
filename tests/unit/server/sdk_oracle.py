"""The gateway as a server of the MCP SDK: the oracle of our own protocol towards clients.

The gateway's results take the place of the SDK's own after it has checked a request: its models
would drop members that they do not know.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server

from discovery_engine._util.version import __version__
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import EXTENSIONS
from discovery_engine.tools.meta_tools import ALL_META_TOOLS
from discovery_server.eras import ClientRequest

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.gateway import Gateway

Context: TypeAlias = ServerRequestContext[Any, Any]

_OPENING_METHODS = frozenset({"initialize", "server/discover"})
_PARAMS: dict[str, type[types.RequestParams]] = {
    "logging/setLevel": types.SetLevelRequestParams,
    "tools/list": types.PaginatedRequestParams,
    "tools/call": types.CallToolRequestParams,
    "prompts/list": types.PaginatedRequestParams,
    "prompts/get": types.GetPromptRequestParams,
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "completion/complete": types.CompleteRequestParams,
}


def make_server(gateway: Gateway) -> Server[Any]:
    """An SDK server that answers from `gateway`; the caller runs it on a transport."""
    server: Server[Any] = Server(
        "discovery",
        version=__version__,
        title="Discovery",
        cache_hints={"server/discover": CacheHint(ttl_ms=60_000, scope="private")},
        get_tool_input_schema=_input_schema,
    )
    server.extensions = {name: {} for name in EXTENSIONS}
    adapter = _Adapter(gateway)
    for method, params in _PARAMS.items():
        server.add_request_handler(method, params, adapter.handle)
    server.middleware.append(adapter.replace_result)
    return server


class _Adapter:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._result: ContextVar[JSONObject | None] = ContextVar("result", default=None)

    async def handle(self, ctx: Context, _: types.RequestParams) -> HandlerResult:
        """A handler of the SDK: its own result is replaced by `replace_result`."""
        progress = _ProgressRelay(ctx)
        params = dict(ctx.params or {})
        request = ClientRequest(ctx.method, params, ctx.protocol_version)
        on_progress = progress.send if progress.is_requested else None
        try:
            self._result.set(await self._gateway.handle(request, on_progress))
        except RpcError as error:
            raise MCPError(error.code, error.message, error.data) from error
        await progress.flush()
        return _EMPTY[ctx.method]

    async def replace_result(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the gateway's own result, and current instructions where a client starts."""
        self._result.set(None)
        result = await call_next(ctx)
        if ctx.method in _OPENING_METHODS and isinstance(result, dict):
            request = ClientRequest(ctx.method, dict(ctx.params or {}), ctx.protocol_version)
            return {**result, "instructions": self._gateway.instructions(request)}
        return self._result.get() or result


_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_EMPTY: dict[str, JSONObject] = {
    "logging/setLevel": {},
    "tools/list": {"tools": [], **_COMPLETE},
    "tools/call": {"content": [], **_COMPLETE},
    "prompts/list": {"prompts": [], **_COMPLETE},
    "prompts/get": {"messages": [], **_COMPLETE},
    "resources/list": {"resources": [], **_COMPLETE},
    "resources/templates/list": {"resourceTemplates": [], **_COMPLETE},
    "resources/read": {"contents": [], **_COMPLETE},
    "completion/complete": {"completion": {"values": []}, "resultType": "complete"},
}
"""Results that the SDK accepts in either era."""


def _input_schema(name: str) -> JSONObject | None:
    tool = ALL_META_TOOLS.get(name)
    return tool.input_schema if tool else None


class _ProgressRelay:
    """Forwards progress in order, and all of it before the result.

    Progress comes from tasks of the upstream's connection, so the result could overtake it.
    """

    def __init__(self, ctx: Context) -> None:
        self.is_requested = ctx.meta is not None and "progress_token" in ctx.meta
        self._session = ctx.session
        self._lock = anyio.Lock()

    async def send(self, progress: float, total: float | None, message: str | None) -> None:
        async with self._lock:
            await self._session.report_progress(progress, total, message)

    async def flush(self) -> None:
        """Wait for what was sent; `anyio.Lock` is fair, so it is acquired last."""
        if self.is_requested:
            async with self._lock:
                return
