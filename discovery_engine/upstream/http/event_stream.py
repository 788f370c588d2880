"""A stream of events from a server, as the SDK's HTTP client gets to see it.

It ends where it breaks, so that the client settles the request by itself. It comes at leisure: some
events or lines at a time, and a rest before the next ones, however many there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import httpx2

from discovery_engine.upstream.wire.scheduling import Quota

Sanitize: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Makes the data of an event fit for the client."""

# What things cost; 256 make a rest. A comment every now and then is free for all to send, but
# without a price a flood of them held the others up for 600 ms.
_LINE = 1
_EVENT = 8  # the client takes up to a tenth of a millisecond for one
_BYTES = 4096  # that cost as much as a line


def cost(chunk: bytes) -> int:
    """What it costs to receive so much at once: however little it is, it takes a turn."""
    return _LINE + len(chunk) // _BYTES


class EventStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        stream: Any,
        mend: Sanitize,
        *,
        limit: int,
        quota: Quota,
        broken: tuple[type[Exception], ...],
    ) -> None:
        """A line beyond `limit` bytes is left as it is; `broken` is what a stream breaks with."""
        self._stream = stream
        self._mend = mend
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
        """The line that ends with a piece; nothing if it does not end."""
        self._line += piece
        if piece[-1:] not in b"\r\n" and len(self._line) <= self._limit:
            return b""
        line = bytes(self._line)
        self._line.clear()
        return await self._mended(line) if len(line) <= self._limit else line

    async def _mended(self, line: bytes) -> bytes:
        name, colon, data = line.partition(b":")
        if name != b"data" or not colon:
            return line
        self._quota.spend(_EVENT)
        end = line[len(line.rstrip(b"\r\n")) :]
        return b"data: " + await self._mend(data.strip()) + end


class CompressedEventStream(httpx2.AsyncByteStream):
    """The same of one that is compressed, where nothing can be told apart."""

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
