"""An event stream of a server, wrapped for the SDK's HTTP client.

A broken stream just ends, so that the client fails the request by itself. Floods are throttled:
after some lines or events, reading pauses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import httpx2

from discovery_engine.rpc.scheduling import Quota

Present: TypeAlias = Callable[[bytes | None], Awaitable[bytes]]
"""Makes what the client reads of the data of an event, in one line; the data is None if it is too
long, and what is made of it is empty if it is none of the client's business."""

# Costs; 256 lead to a pause. Comments cost too: a flood of free ones delayed other calls by 600 ms.
_LINE = 1
_EVENT = 8  # the client takes up to a tenth of a millisecond for one
_BYTES = 4096  # cost as much as a line

_DATA = b"data:"


def cost(chunk: bytes) -> int:
    """The cost of one received chunk: even a tiny one takes a turn of the event loop."""
    return _LINE + len(chunk) // _BYTES


class EventStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        stream: Any,
        present: Present,
        *,
        limit: int,
        quota: Quota,
        broken: tuple[type[Exception], ...],
    ) -> None:
        """`limit` is that of an event, in bytes; `broken` are the errors of a broken stream."""
        self._stream = stream
        self._present = present
        self._limit = limit
        self._quota = quota
        self._broken = broken
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0  # of `_data`
        self._is_too_long = False
        self._ended_by_return = False  # whether a newline that comes next belongs to the last line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                whole = bytearray()
                self._quota.spend(cost(chunk))
                for piece in self._pieces(chunk):
                    self._quota.spend(_LINE)
                    whole += await self._completed(piece)
                    if self._quota.is_spent:
                        yield bytes(whole)
                        whole.clear()
                    await self._quota.pause_if_spent()
                yield bytes(whole)
        except self._broken:
            pass

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _pieces(self, chunk: bytes) -> list[bytes]:
        """A chunk, cut after each end of a line: CR, LF, or both, which two chunks may divide."""
        if self._ended_by_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._ended_by_return = chunk.endswith(b"\r")
        return chunk.splitlines(keepends=True)

    async def _completed(self, piece: bytes) -> bytes:
        """Return the bytes for the client after a piece: data waits for the end of its event."""
        self._line += piece
        if self._size + len(self._line) > self._limit:
            if not self._line.startswith(b":"):
                self._is_too_long = True
                self._data.clear()
            del self._line[len(_DATA) :]  # shows still what line it is
        if piece[-1:] not in b"\r\n":
            return b""
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if line.startswith(_DATA):
            self._data.append(line.removeprefix(_DATA).strip())
            self._size += len(line)
            return b""
        return (line or await self._event()) + b"\n"

    async def _event(self) -> bytes:
        """The data of the event that has ended, as a line; empty if it has none."""
        data, is_too_long = b" ".join(self._data), self._is_too_long
        self._data.clear()
        self._size, self._is_too_long = 0, False
        if not data and not is_too_long:
            return b""
        self._quota.spend(_EVENT)
        return _DATA + b" " + await self._present(None if is_too_long else data) + b"\n"
