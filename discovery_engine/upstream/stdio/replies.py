"""What we say to a server that asks us something: that we are there, and that we offer nothing.

The answers wait for the server to read them. One that asks on and on and never reads is not
answered any more; it cannot make us keep more than this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from mcp_types import METHOD_NOT_FOUND, JSONRPCRequest, RequestId

from discovery_engine._util.json import JSONObject
from discovery_engine.upstream.wire.json_codec import encode

_UNREAD = 1000  # answers
_LENGTH = 200  # characters of an id that is sent back, and of a method that is named


class Replies:
    def __init__(self) -> None:
        self._unread: list[bytes] = []
        self._news = anyio.Event()

    def enqueue(self, request: JSONRPCRequest) -> bool:
        """Have an answer sent; False if too many wait already, or the id is a burden."""
        if len(self._unread) >= _UNREAD or len(str(request.id)) > _LENGTH:
            return False
        self._unread.append(encode(_answer(request.id, request.method)))
        self._news.set()
        return True

    async def drain(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write the answers as the server reads them, until it is gone."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                lines, self._unread = self._unread, []
                await write(b"".join(lines))


def _answer(request: RequestId, method: str) -> JSONObject:
    if method == "ping":
        return {"jsonrpc": "2.0", "id": request, "result": {}}
    error = {"code": METHOD_NOT_FOUND, "message": f"{method[:_LENGTH]} is not supported"}
    return {"jsonrpc": "2.0", "id": request, "error": error}
