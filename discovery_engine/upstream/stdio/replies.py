"""Answers to requests of a server: `ping` succeeds, everything else is not supported.

Answers are queued until the server reads them. The queue is bounded: a server that sends requests
and never reads gets no more answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from mcp_types import METHOD_NOT_FOUND, JSONRPCRequest, RequestId

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.json_codec import encode

_QUEUE = 1000  # answers
_LENGTH = 200  # characters of an id that is sent back, and of a method that is named


class Replies:
    def __init__(self) -> None:
        self._queue: list[bytes] = []
        self._arrived = anyio.Event()

    def enqueue(self, request: JSONRPCRequest) -> bool:
        """Queue an answer; False if the queue is full or the id is too long."""
        if len(self._queue) >= _QUEUE or len(str(request.id)) > _LENGTH:
            return False
        self._queue.append(encode(_answer(request.id, request.method)))
        self._arrived.set()
        return True

    async def drain(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write the queued answers until the server closes its stdin."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                await self._arrived.wait()
                self._arrived = anyio.Event()
                lines, self._queue = self._queue, []
                await write(b"".join(lines))


def _answer(request: RequestId, method: str) -> JSONObject:
    if method == "ping":
        return {"jsonrpc": "2.0", "id": request, "result": {}}
    error = {"code": METHOD_NOT_FOUND, "message": f"{method[:_LENGTH]} is not supported"}
    return {"jsonrpc": "2.0", "id": request, "error": error}
