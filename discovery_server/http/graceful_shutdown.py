"""Graceful shutdown of open HTTP requests.

A stream on which a client only listens would stay open forever, and is ended at once; a call gets
a grace period. Otherwise the HTTP server would wait for both, then abort them and log each as an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from discovery_server.http.asgi import respond_text

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Message, Receive, Scope, Send

LISTENS = "discovery.listens"
"""Set in the scope of another request than GET on whose stream a client only listens."""
_UNAVAILABLE = 503


class GracefulShutdown:
    """ASGI middleware; `grace` is the time in seconds that calls in flight get."""

    def __init__(self, app: ASGIApp, grace: float) -> None:
        self._app = app
        self._grace = grace
        self._open: dict[anyio.CancelScope, Scope] = {}
        """The requests in flight."""

    def begin(self) -> None:
        """Set deadlines for the requests in flight; later requests are served as usual."""
        for request, scope in self._open.items():
            is_stream = scope["method"] == "GET" or scope.get(LISTENS)
            request.deadline = anyio.current_time() + (0 if is_stream else self._grace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _TrackedResponse(send)
        with anyio.CancelScope() as request:
            self._open[request] = scope
            try:
                await self._app(scope, receive, answer.send)
            finally:
                del self._open[request]
        if request.cancelled_caught:
            await answer.end()


class _TrackedResponse:
    """The progress of the answer to one request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = self._is_whole = False

    async def send(self, message: Message) -> None:
        self._is_begun = True
        self._is_whole = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    async def end(self) -> None:
        """Complete the answer from where it was interrupted."""
        if not self._is_begun:
            await respond_text(self._send, _UNAVAILABLE, "The server is stopping")
        elif not self._is_whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
