"""The interface of ASGI, and plain answers on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.messages import RequestId, RpcError, error_answer

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")
CLOSE: Header = (b"connection", b"close")


class HttpError(Exception):
    """A request that is answered with an error of HTTP, whose body is an error of JSON-RPC."""

    def __init__(
        self,
        status: int,
        code: int,
        text: str,
        *headers: Header,
        request_id: RequestId | None = None,
        data: JSONValue = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.error = RpcError(code, text, data)
        self.headers = headers
        self.request_id = request_id

    async def send(self, send: Send) -> None:
        body = encode_finite(error_answer(self.request_id, self.error))
        await respond(send, self.status, body, JSON, *self.headers)


async def respond(send: Send, status: int, body: bytes, *headers: Header) -> None:
    """Send a whole answer."""
    await start(send, status, [(b"content-length", b"%d" % len(body)), *headers])
    await send({"type": "http.response.body", "body": body})


async def respond_text(send: Send, status: int, text: str, *headers: Header) -> None:
    await respond(send, status, text.encode(), TEXT, *headers)


async def start(send: Send, status: int, headers: Iterable[Header]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """All values of a header, whose name is in lower case."""
    return [value for key, value in scope["headers"] if key == name]


async def refuse_websocket(send: Send) -> None:
    """Refuse a WebSocket before it is opened: the client gets the status 403."""
    await send({"type": "websocket.close", "code": 1008, "reason": ""})
