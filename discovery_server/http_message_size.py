"""The limit of `message_size` for bodies of HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.message_size import refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LONGEST_BODY = 4 << 20  # bytes; what is longer is refused by the SDK


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
            body = encode_finite(error).strip()
            status = 400 if error["id"] is None else 200
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
