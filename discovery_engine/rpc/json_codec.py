"""A byte stream to lines, lines of JSON to values, and values back to lines.

Decoding is lenient about text encoding and strict about JSON: invalid input is a ValueError, and
`sniffed_id` may still find the request id at the edges of the line.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, field

from discovery_engine._util.json import JSONValue, parse_finite, refuse_constant
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.rpc.incremental_json import WINDOW, ParseSteps, parse_incrementally

EDGE = 512  # bytes at either end of a line in which the request id is searched

_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*'
_HEAD = lazy_pattern(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb',\s*"(?:result|error)"'
)
_TAIL = lazy_pattern(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def decode(line: bytes) -> JSONValue:
    """The JSON of a line; invalid UTF-8, lone surrogates and NUL become U+FFFD.

    Raises:
        ValueError: If it is not JSON, nests too deeply, or contains a number out of range.
    """
    if b"\\u0000" not in line:
        try:
            return msgspec.json.decode(line)  # a quarter of the time, but strict about the encoding
        except (ValueError, RecursionError):
            pass
    text = _text(line)
    try:
        return _clean(_DECODER.decode(text), text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def decode_incrementally(line: bytes, *, window: int = WINDOW) -> ParseSteps[JSONValue]:
    """`decode` as a generator, for long lines; each step takes under a millisecond."""
    try:
        return (yield from parse_incrementally(_text(line), _clean, window=window))
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def encode(message: JSONValue) -> bytes:
    """One line of JSON; lone surrogates become U+FFFD.

    Raises:
        ValueError: If it contains a number that JSON cannot express, or nests too deeply.
    """
    try:
        # An eighth of the time, but a number that JSON cannot express becomes null.
        if b"null" not in (line := msgspec.json.encode(message)):
            return line + b"\n"
    except (UnicodeEncodeError, RecursionError):
        pass
    try:
        text = _ENCODER.encode(message)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _mended(text).encode() + b"\n"


def decode_standard(line: bytes) -> JSONValue:
    """Decode a line like `decode`, but keep NUL in standard JSON.

    Raises:
        ValueError: As `decode`.
    """
    try:
        return msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return decode(line)


def encode_finite(message: JSONValue) -> bytes:
    """`encode` in a fifth of the time; a number that JSON cannot express becomes null.

    Raises:
        ValueError: If it nests too deeply.
    """
    try:
        return msgspec.json.encode(message) + b"\n"
    except (UnicodeEncodeError, RecursionError):
        return encode(message)


def sniffed_id(head: bytes, tail: bytes) -> int | str | None:
    """The request id of a line that cannot be parsed, if its first or last bytes contain it."""
    if match := _HEAD.match(head) or _TAIL.search(tail):
        with suppress(ValueError):  # a match need not be valid JSON
            identity: int | str = json.loads(match[1])
            return identity
    return None


def edges(line: bytes) -> tuple[bytes, bytes]:
    """The two ends of a line, for `sniffed_id`."""
    return line[:EDGE], line[-EDGE:]


def is_clean(line: bytes) -> bool:
    """Return whether a line certainly contains nothing that `decode` would replace."""
    return not line.startswith(BOM_UTF8) and not _may_be_unclean(line.decode("latin-1"))


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


_UNCLEAN = lazy_pattern("[\0\ud800-\udfff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=parse_finite)


# Each byte is read once and copied once. A line over the limit is dropped up to its newline, and
# the stream continues behind it.

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
