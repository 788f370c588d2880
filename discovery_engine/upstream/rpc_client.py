"""JSON-RPC requests over one open connection.

Results stay the JSON that the server sent: typed models would drop unknown fields.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from mcp import MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.json_codec import decode, encode
from discovery_engine.upstream.handshake import ServerInfo, discover, read_discovered, request_meta
from discovery_engine.upstream.transport import Transport

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with the progress, the total if known, and the message if any."""


class RpcClient:
    """Sends requests over an open connection, from any task."""

    def __init__(
        self,
        transport: Transport,
        dispatcher: JSONRPCDispatcher,
        info: ServerInfo,
        *,
        is_stored: bool,
        on_proven: Callable[[], None],
    ) -> None:
        self.transport = transport
        self.dispatcher = dispatcher
        self.info = info
        self.is_stored = is_stored
        """Whether `info` comes from an earlier connection."""
        self.is_proven = False
        """Whether the server has answered a request in the assumed era."""
        self._on_proven = on_proven
        if not is_stored:
            self._prove()
        self._meta = request_meta(info.version) if info.is_modern else None

    async def refresh_info(self) -> None:
        """Request `server/discover` again; no-op if the server answers with an error."""
        with suppress(MCPError):
            if info := read_discovered(await discover(self.dispatcher)):
                self.info = info
                self.is_stored = False

    async def list_page(self, params: JSONObject) -> JSONObject:
        return await self._request("tools/list", params)

    async def call(
        self,
        tool: str,
        arguments: JSONObject,
        *,
        headers: Mapping[str, str],
        on_progress: OnProgress | None,
    ) -> JSONObject:
        params = {"name": tool, "arguments": arguments}
        named = {MCP_NAME_HEADER: encode_header_value(tool), **headers}
        return await self._request("tools/call", params, headers=named, on_progress=on_progress)

    async def _request(
        self,
        method: str,
        params: JSONObject,
        *,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        options: CallOptions = {}
        if on_progress:
            options["on_progress"] = _by_name(on_progress)
        if self._meta:
            params = params | {"_meta": self._meta}
        if self.transport.kind != "stdio":
            params = decode(encode(params))  # what JSON cannot express crashes the SDK
            options["headers"] = self._headers(method, headers or {})
        answer = await self.dispatcher.send_raw_request(method, params, options)
        if not self.is_proven:
            self._prove()
        return self.transport.result(answer)

    def _prove(self) -> None:
        self.is_proven = True
        self._on_proven()

    def _headers(self, method: str, named: Mapping[str, str]) -> dict[str, str]:
        version = {MCP_PROTOCOL_VERSION_HEADER: self.info.version}
        if not self.info.is_modern:
            return version
        return version | {MCP_METHOD_HEADER: method} | dict(named)


def _by_name(on_progress: OnProgress) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message)

    return report
