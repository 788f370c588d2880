"""Answers to what is no message of JSON-RPC, in the standard's code and in words for its sender.

The SDK tells clients of the handshake era -32602, "invalid params", with all that pydantic has to
say about every kind of message that it might have been: classes, values, links. It is -32600.
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
    """Rewrites one answer of an application, and passes the others on as they come."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _Answer(send).send)


class _Answer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        """Kept back until it is known how long the body is."""

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
    """Whether the SDK could not tell what kind of message it was sent."""
    try:
        answer = json.loads(body)
        return bool(answer["id"] is None and answer["error"]["code"] == _INVALID_PARAMS)
    except (ValueError, KeyError, TypeError):
        return False
