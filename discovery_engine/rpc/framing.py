"""Splits the output of a program into lines, with bounded memory and in linear time.

Each byte is read once and copied once. A line over the limit is dropped up to its newline, and the
stream continues behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from discovery_engine.rpc.json_codec import EDGE, sniffed_id

LINE_LIMIT = 8 * 1024 * 1024  # bytes; a tool result of this size is already unusable to an agent

_SAMPLES = 3
_SAMPLE_LENGTH = 200  # characters


class Overlong(Struct, frozen=True):
    """The beginning or the end of a line that is too long to keep."""

    head: bytes = b""
    tail: bytes = b""

    @property
    def request_id(self) -> int | str | None:
        return sniffed_id(self.head, self.tail)


class Garbage(Struct):
    """Lines that were no messages: their number and the first few of them."""

    count: int = 0
    samples: list[str] = field(default_factory=list)
    foreign: str = ""
    """The first line that is not JSON-RPC at all; the others are unsolicited answers."""

    def add(self, line: bytes) -> None:
        self.count += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append(_sample(line))

    def add_foreign(self, line: bytes) -> None:
        self.foreign = self.foreign or _sample(line)
        self.add(line)


class Framer:
    """Splits a byte stream into lines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()
        self._tail: bytes | None = None  # set while the rest of an overlong line is dropped

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """The lines that end in `chunk`, and an `Overlong` for a line over the limit."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if not self._line and self._tail is None and len(end) <= self._limit:
                yield end  # most lines come whole
                continue
            yield from self._add(end)
            yield self._finished()
        if rest:
            yield from self._add(rest)

    def finish(self) -> Iterator[bytes | Overlong]:
        """The rest, when the stream ends without a newline."""
        if self._line or self._tail is not None:
            yield self._finished()

    @property
    def unfinished(self) -> str:
        """The beginning of the line that has not ended yet; empty for an overlong one."""
        return _sample(self._line)

    def _add(self, piece: bytes) -> Iterator[Overlong]:
        if self._tail is not None:
            self._tail = (self._tail + piece)[-EDGE:]
            return
        self._line += piece
        if len(self._line) > self._limit:
            head = bytes(self._line[:EDGE])
            self._line = bytearray()
            self._tail = piece[-EDGE:]
            yield Overlong(head=head)

    def _finished(self) -> bytes | Overlong:
        line = bytes(self._line) if self._tail is None else Overlong(tail=self._tail)
        self._line = bytearray()
        self._tail = None
        return line


def _sample(line: bytes | bytearray) -> str:
    return line[: 4 * _SAMPLE_LENGTH].decode("utf-8", "replace").strip()[:_SAMPLE_LENGTH]
