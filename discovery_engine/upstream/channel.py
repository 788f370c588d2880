"""Raw requests over one open connection.

Results stay the JSON that the server sent: typed models would drop what they do not know.
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
from discovery_engine.upstream.handshake import Greeting, discover, read_discovered, request_meta
from discovery_engine.upstream.link import Link
from discovery_engine.upstream.wire.codec import decode, encode

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Told the progress, the total if known, and a message if there is one."""


class Channel:
    """An open connection, ready for requests from any task."""

    def __init__(
        self,
        link: Link,
        dispatcher: JSONRPCDispatcher,
        greeting: Greeting,
        *,
        is_remembered: bool,
        on_proven: Callable[[], None],
    ) -> None:
        self.link = link
        self.dispatcher = dispatcher
        self.greeting = greeting
        self.is_remembered = is_remembered
        """Whether the greeting is that of an earlier connection."""
        self.is_proven = False
        """Whether the server has answered anything in the era that it is taken to speak."""
        self._on_proven = on_proven
        if not is_remembered:
            self._prove()
        self._meta = request_meta(greeting.version) if greeting.is_modern else None

    async def renew(self) -> None:
        """Ask for the greeting again; no-op if the server will not give it now."""
        with suppress(MCPError):
            if greeting := read_discovered(await discover(self.dispatcher)):
                self.greeting = greeting
                self.is_remembered = False

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
        if self.link.carrier != "stdio":
            params = decode(encode(params))  # the SDK's HTTP client dies of what JSON cannot say
            options["headers"] = self._headers(method, headers or {})
        answer = await self.dispatcher.send_raw_request(method, params, options)
        if not self.is_proven:
            self._prove()
        return self.link.result(answer)

    def _prove(self) -> None:
        self.is_proven = True
        self._on_proven()

    def _headers(self, method: str, named: Mapping[str, str]) -> dict[str, str]:
        version = {MCP_PROTOCOL_VERSION_HEADER: self.greeting.version}
        if not self.greeting.is_modern:
            return version
        return version | {MCP_METHOD_HEADER: method} | dict(named)


def _by_name(on_progress: OnProgress) -> ProgressFnT:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message)

    return tell
