"""The floor: a gateway of asyncio alone, which passes calls on and does nothing else.

    python benchmarks/raw_gateway.py COMMAND ARG...

It has no checks, rules, catalog or limits. What `headline.py` measures beside it shows what those
cost, and how far Python can go at all.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any


class Gateway:
    def __init__(self, server: asyncio.subprocess.Process) -> None:
        self._server = server
        self._clients: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._out: list[bytes] = []

    async def read_server(self) -> None:
        while line := await self._server.stdout.readline():
            message = json.loads(line)
            client = self._clients.pop(message.get("id"), None)
            if client is not None:
                self._answer(client, message["result"])

    async def read_client(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("method") == "initialize":
                info = {"name": "raw", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
                self._answer(message["id"], result)
            elif message.get("method") == "tools/call":
                self._forward(message["id"], message["params"]["arguments"])

    def _forward(self, client: Any, given: dict[str, Any]) -> None:
        number = next(self._numbers)
        self._clients[number] = client
        params = {"name": given["tool"].partition(":")[2], "arguments": given["arguments"]}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")

    def _answer(self, client: Any, result: Any) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(json.dumps({"jsonrpc": "2.0", "id": client, "result": result}).encode())

    def _flush(self) -> None:
        data = b"\n".join([*self._out, b""])
        self._out.clear()
        while data:
            data = data[os.write(1, data) :]


async def main() -> None:
    server = await asyncio.create_subprocess_exec(*sys.argv[1:], stdin=-1, stdout=-1)
    gateway = Gateway(server)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    task = loop.create_task(gateway.read_server())
    await gateway.read_client(reader)
    task.cancel()
    server.kill()


asyncio.run(main())
