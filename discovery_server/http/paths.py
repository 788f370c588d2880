"""Several applications at one address, each below a path of its own, and refusals before them.

{"code": "UNAUTHORIZED", "message": "a token is required", "hint": "…"}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.http.asgi import JSON, refuse_websocket, respond, respond_text

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Header, Receive, Scope, Send

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


# Refusals before routing: in the form of the API below its paths, elsewhere in that of the caller.

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
