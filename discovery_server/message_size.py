"""A limit on the number of values in a message, checked before it is parsed.

Parsing creates an object for each array and member, and the garbage collector traverses them again
and again: two million brackets in 4 MiB blocked the event loop for 1 to 4 s. Counting bytes takes
milliseconds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import mcp_types as types
import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MOST = 50_000  # arrays, objects and members of objects: 4 to 20 ms of parsing
_SMALL = 64 * 1024  # bytes; what is shorter is parsed before it is counted
_SLICE = 64 * 1024  # bytes counted at once
_LONGEST_BODY = 4 << 20  # bytes; what is longer is refused by the SDK


_EDGE = 512  # bytes
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _OTHER + rb",\s*)*" + _ID + rb"[,}]")
_END = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _OTHER + rb")*\}\s*$")


class _Envelope(msgspec.Struct):
    id: int | str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> types.JSONRPCError | None:
    """The answer to a message of too many parts; None for one that may be parsed."""
    if len(message) <= _SMALL or not _has_many_parts(message):
        return None
    try:
        request = _request_id(message)
    except (ValueError, RecursionError):
        return _error(None, types.PARSE_ERROR, "the body is no JSON, or is nested too deeply")
    text = f"INPUT_TOO_LONG: the message has more than {_MOST:,} arrays, objects and members"
    return _error(request, types.INVALID_PARAMS, f"{text}; split it into several calls")


def _request_id(message: bytes) -> int | str | None:
    """The id of a request.

    Nearly all have it at one end. Reading 4 MB of brackets to find it there took 13 ms.

    Raises:
        ValueError, RecursionError: If it is at neither end, and the message cannot be read.
    """
    if found := _BEGINNING.match(message[:_EDGE]) or _END.search(message[-_EDGE:]):
        return msgspec.json.decode(found[1], type=int | str)
    return _ENVELOPE.decode(message).id


def _error(request: int | str | None, code: int, text: str) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=text)
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _has_many_parts(message: bytes) -> bool:
    # As many texts as parts: telling them apart would cost as much as parsing.
    return any(parts > _MOST or texts > _MOST for parts, texts in counted(message))


def counted(message: bytes, *, step: int = _SLICE) -> Iterator[tuple[int, int]]:
    """How many parts and texts there are up to the end of each slice of `step` bytes.

    Brackets and colons of a text, such as code, are no parts of the message. Whoever has read
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


class MessageSizeLimit:
    """ASGI middleware that refuses messages that are too expensive to parse."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or _is_announced_too_long(scope):
            await self._app(scope, receive, send)
            return
        read = await _read(receive)
        if error := refusal(b"".join(message.get("body", b"") for message in read)):
            body = error.model_dump_json(by_alias=True, exclude_unset=True)
            status = 200 if error.id is not None else 400
            await Response(body, status, media_type="application/json")(scope, receive, send)
            return
        read.reverse()

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        await self._app(scope, receive_again, send)


def _is_announced_too_long(scope: Scope) -> bool:
    """Whether the SDK refuses the body by its header, and so before it comes."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return any(value.isdigit() and int(value) > _LONGEST_BODY for value in lengths)


async def _read(receive: Receive) -> list[Message]:
    """The messages of a body, up to its end or the first byte too many."""
    read: list[Message] = []
    size, is_more = 0, True
    while is_more and size <= _LONGEST_BODY:
        message = await receive()
        read.append(message)
        size += len(message.get("body", b""))
        is_more = bool(message.get("more_body"))
    return read
