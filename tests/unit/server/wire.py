"""A client that speaks to a server over two pipes, in raw JSON, as no client library would."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from discovery_engine._util.json import JSONObject
from discovery_server import stdio
from discovery_server.gateway import Gateway

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def request(number: int, method: str, **params: Any) -> JSONObject:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


PROBE = request(1, "server/discover", _meta=MODERN)
INITIALIZE = request(2, "initialize", **HANDSHAKE)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@dataclass
class Wire:
    """The client's ends of the two pipes."""

    to_server: int
    from_server: int
    answered: anyio.Event
    _rest: bytes = field(default=b"")

    async def send(self, *messages: JSONObject | bytes) -> None:
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        data = b"\n".join([*lines, b""])
        await anyio.to_thread.run_sync(_write_all, self.to_server, data)

    async def receive(self) -> JSONObject:
        while b"\n" not in self._rest:
            await anyio.wait_readable(self.from_server)
            self._rest += os.read(self.from_server, 1 << 16)
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def ask(self, message: JSONObject) -> JSONObject:
        await self.send(message)
        return await self.receive()

    def hang_up(self) -> None:
        os.close(self.to_server)
        self.to_server = -1


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def call(number: int, name: str, *, era: str = "legacy", **arguments: Any) -> JSONObject:
    envelope = {"_meta": dict(MODERN)} if era == "modern" else {}
    return request(number, "tools/call", name=name, arguments=arguments, **envelope)


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncIterator[Wire]:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    wire = Wire(to_server, from_server, anyio.Event())
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await stdio.serve(gateway, stdin, stdout, answered=wire.answered)

            tasks.start_soon(serve)
            yield wire
            tasks.cancel_scope.cancel()
    for descriptor in (stdin, stdout, wire.to_server, wire.from_server):
        with suppress(OSError):
            os.close(descriptor)
