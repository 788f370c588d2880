"""Open requests, ended in good order when the server is told to stop.

A stream on which a client only listens would stay open for ever, and is ended at once; a call
gets a while to finish. Without this the HTTP server would wait for both, then tear them down and
log each as a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Farewell:
    """`grace` is the time in seconds that calls get."""

    def __init__(self, app: ASGIApp, grace: float) -> None:
        self._app = app
        self._grace = grace
        self._open: dict[anyio.CancelScope, bool] = {}
        """The requests under way, and whether each only listens."""

    def say(self) -> None:
        """End what is open; what comes later is served as ever."""
        for request, only_listens in self._open.items():
            request.deadline = anyio.current_time() + (0 if only_listens else self._grace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        with anyio.CancelScope() as request:
            self._open[request] = scope["method"] == "GET"
            try:
                await self._app(scope, receive, answer.send)
            finally:
                del self._open[request]
        if request.cancelled_caught:
            await answer.end(scope, receive)


class _Answer:
    """How far the answer to a request has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = self._is_whole = False

    async def send(self, message: Message) -> None:
        self._is_begun = True
        self._is_whole = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """Bring it to an end, wherever it was broken off."""
        if not self._is_begun:
            await PlainTextResponse("The server is stopping", 503)(scope, receive, self._send)
        elif not self._is_whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
