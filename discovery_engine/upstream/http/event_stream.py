"""An event stream of a server, wrapped for the SDK's HTTP client.

A broken stream just ends, so that the client fails the request by itself. Floods are throttled:
after some lines or events, reading pauses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import httpx2

from discovery_engine.rpc.scheduling import Quota

Sanitize: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Sanitizes the data of an event for the client."""

# Costs; 256 lead to a pause. Comments cost too: a flood of free ones delayed other calls by 600 ms.
_LINE = 1
_EVENT = 8  # the client takes up to a tenth of a millisecond for one
_BYTES = 4096  # cost as much as a line


def cost(chunk: bytes) -> int:
    """The cost of one received chunk: even a tiny one takes a turn of the event loop."""
    return _LINE + len(chunk) // _BYTES


class EventStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        stream: Any,
        sanitize: Sanitize,
        *,
        limit: int,
        quota: Quota,
        broken: tuple[type[Exception], ...],
    ) -> None:
        """A line over `limit` bytes is unchanged; `broken` are the errors of a broken stream."""
        self._stream = stream
        self._sanitize = sanitize
        self._limit = limit
        self._quota = quota
        self._broken = broken
        self._line = bytearray()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                whole = bytearray()
                self._quota.spend(cost(chunk))
                for piece in chunk.splitlines(keepends=True):
                    self._quota.spend(_LINE)
                    whole += await self._completed(piece)
                    if self._quota.is_spent:
                        yield bytes(whole)
                        whole.clear()
                    await self._quota.pause_if_spent()
                yield bytes(whole)
        except self._broken:
            pass
        yield bytes(self._line)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _completed(self, piece: bytes) -> bytes:
        """The line that ends with a piece; empty if it does not end."""
        self._line += piece
        if piece[-1:] not in b"\r\n" and len(self._line) <= self._limit:
            return b""
        line = bytes(self._line)
        self._line.clear()
        return await self._sanitized(line) if len(line) <= self._limit else line

    async def _sanitized(self, line: bytes) -> bytes:
        name, colon, data = line.partition(b":")
        if name != b"data" or not colon:
            return line
        self._quota.spend(_EVENT)
        end = line[len(line.rstrip(b"\r\n")) :]
        return b"data: " + await self._sanitize(data.strip()) + end


class CompressedEventStream(httpx2.AsyncByteStream):
    """A compressed event stream, whose events are not visible here; it is only throttled."""

    def __init__(self, stream: Any, *, quota: Quota, broken: tuple[type[Exception], ...]) -> None:
        self._stream = stream
        self._quota = quota
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
                self._quota.spend(_EVENT + cost(chunk))
                await self._quota.pause_if_spent()
        except self._broken:
            pass

    async def aclose(self) -> None:
        await self._stream.aclose()
