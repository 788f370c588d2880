"""A stream of events from a server, as the SDK's HTTP client gets to see it.

It ends where it breaks, so that the client settles the request by itself. It comes at leisure: some
events at a time, and a rest before the next ones, however many there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import httpx2

Mend: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Makes the data of an event fit for the client."""
Rest: TypeAlias = Callable[[], Awaitable[None]]

SIZE = 1024 * 1024  # bytes between two rests

_EVENTS = 32  # between two rests; the client takes up to a tenth of a millisecond for each


class EventStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        stream: Any,
        mend: Mend,
        *,
        limit: int,
        rest: Rest,
        broken: tuple[type[Exception], ...],
    ) -> None:
        """A line beyond `limit` bytes is left as it is; `broken` is what a stream breaks with."""
        self._stream = stream
        self._mend = mend
        self._limit = limit
        self._rest = rest
        self._broken = broken
        self._line = bytearray()
        self._due = 0.0  # 1 is a rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                whole = bytearray()
                self._due += len(chunk) / SIZE
                for piece in chunk.splitlines(keepends=True):
                    whole += await self._completed(piece)
                    if self._due >= 1:
                        yield bytes(whole)
                        whole.clear()
                        self._due = 0.0
                        await self._rest()
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
        self._due += 1 / _EVENTS
        end = line[len(line.rstrip(b"\r\n")) :]
        return b"data: " + await self._mend(data.strip()) + end


class PackedStream(httpx2.AsyncByteStream):
    """The same of one that is compressed, where nothing can be told apart."""

    def __init__(self, stream: Any, *, rest: Rest, broken: tuple[type[Exception], ...]) -> None:
        self._stream = stream
        self._rest = rest
        self._broken = broken
        self._due = 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
                self._due += len(chunk) / SIZE + 1 / _EVENTS
                if self._due >= 1:
                    self._due = 0.0
                    await self._rest()
        except self._broken:
            pass

    async def aclose(self) -> None:
        await self._stream.aclose()
