"""The interface of ASGI: plain answers on it, and several applications at one address.

    {"code": "UNAUTHORIZED", "message": "a token is required", "hint": "…"}

Refusals before routing have this form of the API below its paths, elsewhere that of the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
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


LISTENS = "discovery.listens"
"""Set in the scope of another request than GET on whose stream a client only listens."""


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
    """Return all values of a header, whose name is in lower case."""
    return [value for key, value in scope["headers"] if key == name]


async def refuse_websocket(send: Send) -> None:
    """Refuse a WebSocket before it is opened: the client gets the status 403."""
    await send({"type": "websocket.close", "code": 1008, "reason": ""})


HEALTH_PATH = "/health"
SESSION_PATH = "/session"
PAGE_PATH = "/page"
ICON_PATH = "/favicon.ico"  # browsers ask for it, whatever a page says


class Paths:
    """ASGI application that leaves each request to the one of the first part of its path."""

    def __init__(self, applications: Mapping[str, ASGIApp], others: ASGIApp) -> None:
        """The applications by paths such as `/api`; `others` has all other paths."""
        self._applications = applications
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = scope["path"].partition("/")[2].partition("/")[0]
        await self._applications.get(f"/{first}", self._others)(scope, receive, send)


class WithoutWebSockets:
    """ASGI middleware that refuses every WebSocket."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await refuse_websocket(send)
        else:
            await self._app(scope, receive, send)


class OnFirstRequest:
    """ASGI application that is made by its first request: most gateways never get one for it."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = self._make()
        await self._made(scope, receive, send)


API_PATH = "/api"
EVENTS_PATH = "/events"
METRICS_PATH = "/metrics"
_OF_API = frozenset({API_PATH, EVENTS_PATH, METRICS_PATH})


def is_of_api(scope: Scope) -> bool:
    """Return whether a request is for a path where each error has the form of the API."""
    return f"/{scope['path'].partition('/')[2].partition('/')[0]}" in _OF_API


def api_error(code: str, message: str, hint: str, **facts: str) -> bytes:
    return encode_finite({"code": code, "message": message, "hint": hint, **facts})


async def refuse(
    scope: Scope,
    send: Send,
    status: int,
    text: str,
    *headers: Header,
    hint: str,
    code: str = "INVALID_REQUEST",
) -> None:
    """Answer with an error of the API below its paths, and with the text alone elsewhere."""
    if is_of_api(scope):
        await respond(send, status, api_error(code, text, hint), JSON, *headers)
    else:
        await respond_text(send, status, text, *headers)
