"""Lines of JSON from a program that nobody here wrote: bounded, linear in time, lenient.

Each byte is looked at once and copied once. A line over the limit is dropped up to its newline,
and the stream goes on behind it; what is not JSON costs that line alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from discovery_engine.tools import JSONValue

LINE_LIMIT = 8 * 1024 * 1024  # bytes; a tool result of this size is already unusable to an agent

_EDGE = 512  # bytes kept of a dropped line, to read the id of its request from
_SAMPLES = 3
_SAMPLE_LENGTH = 200  # characters

_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*'
_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb',\s*"(?:result|error)"'
)
_TAIL = re.compile(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Overlong:
    """A part of a line that is too long to keep: where it starts, or where it ends."""

    head: bytes = b""
    tail: bytes = b""

    @property
    def request_id(self) -> int | str | None:
        return sniffed_id(self.head, self.tail)


@dataclass
class Garbage:
    """What came that was not a message: how many lines, and the first few of them."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        self.count += 1
        if len(self.samples) < _SAMPLES:
            text = line[: 4 * _SAMPLE_LENGTH].decode("utf-8", "replace").strip()
            self.samples.append(text[:_SAMPLE_LENGTH])


class Framer:
    """Cuts a stream of bytes into lines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._tail: bytes | None = None  # set while the rest of an overlong line is dropped

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """The lines that end in `chunk`, and word of a line that has become too long."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._add(end)
            yield self._finished()
        if rest:
            yield from self._add(rest)

    def finish(self) -> Iterator[bytes | Overlong]:
        """What is left when the stream ends without a newline."""
        if self._parts or self._tail is not None:
            yield self._finished()

    def _add(self, piece: bytes) -> Iterator[Overlong]:
        if self._tail is not None:
            self._tail = (self._tail + piece)[-_EDGE:]
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            head = b"".join(self._parts)[:_EDGE]
            self._parts.clear()
            self._tail = piece[-_EDGE:]
            yield Overlong(head=head)

    def _finished(self) -> bytes | Overlong:
        line: bytes | Overlong = b"".join(self._parts)
        if self._tail is not None:
            line = Overlong(tail=self._tail)
        self._parts.clear()
        self._size = 0
        self._tail = None
        return line


def decode(line: bytes) -> JSONValue:
    """The JSON of a line; invalid UTF-8 and lone surrogates become U+FFFD.

    Raises:
        ValueError: If it is not JSON, nests too deeply, or holds a number beyond all bounds.
    """
    try:
        value = _DECODER.decode(line.decode("utf-8", "replace"))
        if _may_hold_surrogates(line):
            value = json.loads(_mended(json.dumps(value, ensure_ascii=False)))
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return value


def encode(message: JSONValue) -> bytes:
    """One line of JSON; lone surrogates become U+FFFD.

    Raises:
        ValueError: If it holds a number that JSON cannot express, or nests too deeply.
    """
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _mended(text).encode() + b"\n"


def without_surrogates(body: bytes) -> bytes:
    """The same JSON without lone surrogates, which strict readers refuse as a whole.

    Raises:
        ValueError: As `decode`, if there is anything to mend.
    """
    return encode(decode(body)) if _may_hold_surrogates(body) else body


def sniffed_id(head: bytes, tail: bytes) -> int | str | None:
    """The id of the request that an unreadable line answers, if its edges show it."""
    if found := _HEAD.match(head) or _TAIL.search(tail):
        identity: int | str = json.loads(found[1])
        return identity
    return None


def edges(line: bytes) -> tuple[bytes, bytes]:
    """The two ends of a line, for `sniffed_id`."""
    return line[:_EDGE], line[-_EDGE:]


def _may_hold_surrogates(text: bytes) -> bool:
    return b"\\ud" in text or b"\\uD" in text


def _mended(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
