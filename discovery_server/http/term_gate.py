"""Requests at a leader that may be one no more.

A process that was stopped is not told so when it goes on, and clients may have connected meanwhile.
Their requests wait until it is known whether it still leads, and are refused if it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_server.http.asgi import CLOSE, respond_text

if TYPE_CHECKING:
    from discovery_engine.runtime.leadership import Term
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send

_UNAVAILABLE = 503
_RETRY = (b"retry-after", b"2")  # seconds; by then another process may listen


class TermGate:
    """ASGI middleware of an application that serves for one term."""

    def __init__(self, app: ASGIApp, term: Term) -> None:
        self._app = app
        self._term = term

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._term.is_certain or await self._term.confirmed():
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # before it was accepted: a plain refusal
        else:
            text = "Another process serves this address by now"
            await respond_text(send, _UNAVAILABLE, text, CLOSE, _RETRY)
