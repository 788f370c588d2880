"""Lines of JSON from a program that nobody here wrote: bounded, linear in time, lenient.

Each byte is looked at once and copied once. A line over the limit is dropped up to its newline,
and the stream goes on behind it; what is not JSON costs that line alone.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from discovery_engine.strict_json import finite, refuse
from discovery_engine.tools import JSONValue
from discovery_engine.upstream.slices import WINDOW, Slices, in_slices

LINE_LIMIT = 8 * 1024 * 1024  # bytes; a tool result of this size is already unusable to an agent

_EDGE = 512  # bytes kept of a dropped line, to read the id of its request from
_SAMPLES = 3
_SAMPLE_LENGTH = 200  # characters

_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*'
_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb',\s*"(?:result|error)"'
)
_TAIL = re.compile(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class Overlong(Struct, frozen=True):
    """A part of a line that is too long to keep: where it starts, or where it ends."""

    head: bytes = b""
    tail: bytes = b""

    @property
    def request_id(self) -> int | str | None:
        return sniffed_id(self.head, self.tail)


class Garbage(Struct):
    """What came that was not a message: how many lines, and the first few of them."""

    count: int = 0
    samples: list[str] = field(default_factory=list)
    foreign: str = ""
    """The first that is no JSON-RPC message at all; others are answers that nobody waited for."""

    def add(self, line: bytes) -> None:
        self.count += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append(_sample(line))

    def add_foreign(self, line: bytes) -> None:
        self.foreign = self.foreign or _sample(line)
        self.add(line)


class Framer:
    """Cuts a stream of bytes into lines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()
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
        if self._line or self._tail is not None:
            yield self._finished()

    @property
    def unfinished(self) -> str:
        """How the line begins that has not ended yet; empty for one that is too long."""
        return _sample(self._line)

    def _add(self, piece: bytes) -> Iterator[Overlong]:
        if self._tail is not None:
            self._tail = (self._tail + piece)[-_EDGE:]
            return
        self._line += piece
        if len(self._line) > self._limit:
            head = bytes(self._line[:_EDGE])
            self._line = bytearray()
            self._tail = piece[-_EDGE:]
            yield Overlong(head=head)

    def _finished(self) -> bytes | Overlong:
        line = bytes(self._line) if self._tail is None else Overlong(tail=self._tail)
        self._line = bytearray()
        self._tail = None
        return line


def decode(line: bytes) -> JSONValue:
    """The JSON of a line; invalid UTF-8, lone surrogates and NUL become U+FFFD.

    Raises:
        ValueError: If it is not JSON, nests too deeply, or holds a number beyond all bounds.
    """
    text = _text(line)
    try:
        return _clean(_DECODER.decode(text), text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def decode_in_slices(line: bytes, *, window: int = WINDOW) -> Slices[JSONValue]:
    """The same of a long line, as a generator that returns it; each step takes but a moment."""
    try:
        return (yield from in_slices(_text(line), _clean, window=window))
    except RecursionError:
        raise ValueError("it nests too deeply") from None


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


def sniffed_id(head: bytes, tail: bytes) -> int | str | None:
    """The id of the request that an unreadable line answers, if its edges show it."""
    if found := _HEAD.match(head) or _TAIL.search(tail):
        with suppress(ValueError):  # what looks like an id need not be JSON
            identity: int | str = json.loads(found[1])
            return identity
    return None


def edges(line: bytes) -> tuple[bytes, bytes]:
    """The two ends of a line, for `sniffed_id`."""
    return line[:_EDGE], line[-_EDGE:]


def is_clean(line: bytes) -> bool:
    """Whether it certainly holds nothing that `decode` would replace."""
    return not line.startswith(BOM_UTF8) and not _may_be_unclean(line.decode("latin-1"))


def _sample(line: bytes | bytearray) -> str:
    return line[: 4 * _SAMPLE_LENGTH].decode("utf-8", "replace").strip()[:_SAMPLE_LENGTH]


def _text(line: bytes) -> str:
    return line.removeprefix(BOM_UTF8).decode("utf-8", "replace")


def _clean(value: Any, text: str) -> Any:
    return _cleaned(value) if _may_be_unclean(text) else value


def _may_be_unclean(text: str) -> bool:
    return "\\" in text and ("\\ud" in text or "\\uD" in text or "\\u0000" in text)


def _cleaned(value: JSONValue) -> JSONValue:
    match value:
        case str():
            return _UNCLEAN.sub("\ufffd", value)
        case list():
            return [_cleaned(item) for item in value]
        case dict():
            return {_UNCLEAN.sub("\ufffd", key): _cleaned(item) for key, item in value.items()}
        case _:
            return value


def _mended(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_UNCLEAN = re.compile("[\0\ud800-\udfff]")
_DECODER = json.JSONDecoder(parse_constant=refuse, parse_float=finite)
