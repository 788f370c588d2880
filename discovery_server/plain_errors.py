"""A plain error with the standard's code for a body that is no JSON-RPC message.

In the handshake era the SDK answers it with -32602 ("invalid params") and pydantic's report on
every kind of message, with class names, values and links. The standard's code is -32600.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from discovery_engine._util.json import JSONObject

_BAD_REQUEST = 400
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602
_ERROR: JSONObject = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": _INVALID_REQUEST,
        "message": "Invalid Request: the body must be one JSON-RPC 2.0 request, notification or"
        " response, and no batch of them",
    },
}


class PlainErrors:
    """ASGI middleware that replaces this one answer, and passes all others on unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _RewrittenResponse(send).send)


class _RewrittenResponse:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        """Held until the length of the body is known."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == _BAD_REQUEST:
            self._start = message
            return
        if start := self._start:
            self._start = None
            if not message.get("more_body") and _is_of_no_kind(message.get("body", b"")):
                body = json.dumps(_ERROR, separators=(",", ":")).encode()
                MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
                message = {**message, "body": body}
            await self._send(start)
        await self._send(message)


def _is_of_no_kind(body: bytes) -> bool:
    """Whether the SDK did not recognise the kind of the message."""
    try:
        answer = json.loads(body)
        return bool(answer["id"] is None and answer["error"]["code"] == _INVALID_PARAMS)
    except (ValueError, KeyError, TypeError):
        return False
