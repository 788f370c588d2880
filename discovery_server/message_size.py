"""A limit on the number of values in a message, checked before it is parsed.

Parsing creates an object for each array and member, and the garbage collector traverses them again
and again: two million brackets in 4 MiB blocked the event loop for 1 to 4 s. Counting bytes takes
milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import error_answer
from discovery_engine.rpc.messages import RequestId, RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS, PARSE_ERROR

_MAX_MESSAGE_PARTS = 50_000  # arrays, objects and members of objects: 4 to 20 ms of parsing
_SMALL = 64 * 1024  # bytes; what is shorter is parsed before it is counted
_SLICE = 64 * 1024  # bytes counted at once

_EDGE = 512  # bytes
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _OTHER + rb",\s*)*" + _ID + rb"[,}]")
_END = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _OTHER + rb")*\}\s*$")


class _Envelope(msgspec.Struct):
    id: int | str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> JSONObject | None:
    """The answer to a message of too many parts; None for one that may be parsed."""
    if len(message) <= _SMALL or not _has_many_parts(message):
        return None
    try:
        request = _request_id(message)
    except (ValueError, RecursionError):
        text = "the body is no JSON, or is nested too deeply"
        return error_answer(None, RpcError(PARSE_ERROR, text))
    text = (
        f"INPUT_TOO_LONG: the message has more than {_MAX_MESSAGE_PARTS:,} "
        "arrays, objects and members"
    )
    return error_answer(request, RpcError(INVALID_PARAMS, f"{text}; split it into several calls"))


def id_at_edges(beginning: bytes, end: bytes) -> RequestId | None:
    """The id of a request, if it is in its first or last bytes, as nearly always."""
    if match := _BEGINNING.match(beginning[:_EDGE]) or _END.search(end[-_EDGE:]):
        return msgspec.json.decode(match[1], type=int | str)
    return None


def _request_id(message: bytes) -> RequestId | None:
    """The id of a request.

    Reading 4 MB of brackets to find it took 13 ms.

    Raises:
        ValueError, RecursionError: If it is at neither end, and the message cannot be read.
    """
    at_edge = id_at_edges(message, message)
    return _ENVELOPE.decode(message).id if at_edge is None else at_edge


def _has_many_parts(message: bytes) -> bool:
    # As many texts as parts: telling them apart would cost as much as parsing.
    return any(
        parts > _MAX_MESSAGE_PARTS or texts > _MAX_MESSAGE_PARTS
        for parts, texts in counted(message)
    )


def counted(message: bytes, *, step: int = _SLICE) -> Iterator[tuple[int, int]]:
    """How many parts and texts there are up to the end of each slice of `step` bytes.

    Brackets and colons of a text, such as code, are no parts of the message. A caller that has read
    enough goes no further: two million brackets are too many after 64 KiB of their 4 MB.
    """
    parts = quotes = 0
    cut = b""
    for start in range(0, len(message), step):
        unescaped = cut + message[start : start + step]
        if b"\\" in unescaped:
            unescaped = unescaped.replace(b"\\\\", b"")
            cut = b"\\" if unescaped.endswith(b"\\") else b""  # what it escapes comes next
            unescaped = unescaped.removesuffix(cut).replace(b'\\"', b"")
        else:
            cut = b""
        pieces = unescaped.split(b'"')
        outside = b"".join(pieces[quotes % 2 :: 2])
        parts += sum(outside.count(sign) for sign in (b"[", b"{", b":"))
        quotes += len(pieces) - 1
        yield parts, quotes // 2
