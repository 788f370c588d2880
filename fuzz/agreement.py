"""Whether framing and the edge decoder agree with the model on one input."""

from __future__ import annotations

from collections.abc import Callable

from discovery_engine._util.json import JSONValue
from discovery_engine.rpc.json_codec import (
    Framer,
    Overlong,
    decode,
    decode_incrementally,
    edges,
    sniffed_id,
)
from discovery_engine.rpc.messages import answered_id, as_message
from fuzz import model


def check(data: bytes, cuts: bytes, limit: int) -> None:
    """Read `data` in pieces as long as the bytes of `cuts` say.

    Raises:
        AssertionError: If there is a disagreement.
        Exception: Whatever should never be raised.
    """
    found = framed(pieces(data, cuts), limit)
    assert found == model.lines(data, limit), (found, data, limit)
    window = 1 + sum(cuts) % 40
    for line in found:
        if isinstance(line, bytes):
            check_line(line, window)


def check_line(line: bytes, window: int = 16) -> None:
    sniffed_id(*edges(line))
    value = read(lambda: decode(line))
    slowly = read(lambda: decoded_in_slices(line, window))
    if not model.is_deep(line):
        expected = model.decoded(line)
        assert repr(value) == repr(expected), (value, expected)
        assert repr(slowly) == repr(expected), (slowly, expected, window)
    answered_id(value)
    as_message(value)


def read(decoding: Callable[[], JSONValue]) -> object:
    try:
        return decoding()
    except ValueError:
        return model.UNREADABLE


def decoded_in_slices(line: bytes, window: int) -> JSONValue:
    slices = decode_incrementally(line, window=window)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def framed(chunks: list[bytes], limit: int) -> list[bytes | str]:
    framer = Framer(limit)
    fed = [line for chunk in chunks for line in framer.feed(chunk)] + list(framer.finish())
    for line in fed:
        if isinstance(line, Overlong):
            _ = line.request_id
    told = [line for line in fed if not (isinstance(line, Overlong) and line.tail)]
    return [model.TOO_LONG if isinstance(line, Overlong) else line for line in told]


def pieces(data: bytes, cuts: bytes) -> list[bytes]:
    found, start = [], 0
    for cut in cuts:
        found.append(data[start : start + cut])
        start += cut
    return [*found, data[start:]]
