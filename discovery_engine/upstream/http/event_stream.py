"""Reads an event stream (SSE) of a server, in bounded memory.

A broken stream just ends, so that its reader fails the request. Floods are throttled: after some
lines or events, reading pauses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from msgspec import Struct

from discovery_engine.rpc.scheduling import Quota

# Costs; 256 lead to a pause. Comments cost too: a flood of free ones delayed other calls by 600 ms.
_LINE = 1
_EVENT = 8  # parsing one and delivering its message takes up to a tenth of a millisecond
_BYTES = 4096  # cost as much as a line

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"event", b"id", b"retry")  # besides `data`; any others would need room without end
_MAX_FIELD = 1024  # bytes of one of them


class Event(Struct, frozen=True):
    """One event; `id` and `retry` may come without data."""

    name: str = "message"
    data: bytes | None = b""
    """Its lines, joined by blanks; None if they are too long."""
    id: str = ""
    retry: float | None = None
    """Seconds to wait before the stream is opened again."""


def cost(chunk: bytes) -> int:
    """The cost of one received chunk: even a tiny one takes a turn of the event loop."""
    return _LINE + len(chunk) // _BYTES


class EventStream:
    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        *,
        limit: int,
        quota: Quota,
        broken: tuple[type[Exception], ...],
    ) -> None:
        """`limit` is that of an event, in bytes; `broken` are the errors of a broken stream."""
        self._chunks = chunks
        self._limit = limit
        self._quota = quota
        self._broken = broken
        self._line = bytearray()
        self._data: list[bytes] = []
        self._fields: dict[bytes, str] = {}
        self._size = 0  # of `_data`
        self._is_too_long = False
        self._ended_by_return = False  # whether a newline that comes next belongs to the last line
        self._is_first = True

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            async for chunk in self._chunks:
                self._quota.spend(cost(chunk))
                for piece in self._pieces(chunk):
                    self._quota.spend(_LINE)
                    if event := self._completed(piece):
                        self._quota.spend(_EVENT)
                        yield event
                        del event  # as its reader does
                    await self._quota.pause_if_spent()
        except self._broken:
            pass

    def _pieces(self, chunk: bytes) -> list[bytes]:
        """A chunk, cut after each end of a line: CR, LF, or both, which two chunks may divide."""
        if self._ended_by_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._ended_by_return = chunk.endswith(b"\r")
        return chunk.splitlines(keepends=True)

    def _completed(self, piece: bytes) -> Event | None:
        """Take a piece of a line in; return the event that it ends, if any."""
        self._line += piece
        if self._size + len(self._line) > self._limit:
            if not self._line.startswith(b":"):
                self._is_too_long = True
                self._data.clear()
            del self._line[_MAX_FIELD:]  # shows still what line it is
        if piece[-1:] not in b"\r\n":
            return None
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._event()
        name, _, value = line.partition(b":")
        if name == b"data":
            if not self._is_too_long:
                self._data.append(value.strip())
            self._size += len(line)
        elif name in _FIELDS and len(value) <= _MAX_FIELD:
            self._fields[name] = value.decode("utf-8", "replace").strip()
        return None

    def _event(self) -> Event | None:
        """The event that has ended; None if there is nothing in it."""
        data, fields = b" ".join(self._data), self._fields
        is_too_long, self._is_too_long = self._is_too_long, False
        self._data, self._fields, self._size = [], {}, 0
        if not (data or fields or is_too_long):
            return None
        retry = None
        with suppress(ValueError):
            retry = int(fields.get(b"retry", "")) / 1000
        name, id_ = fields.get(b"event") or "message", fields.get(b"id", "")
        return Event(name, None if is_too_long else data, "" if "\0" in id_ else id_, retry)
