"""HTTP beside stdio: of all gateways that share a registry and an address, one serves it.

Each is started by a client of its own and serves that over stdio. The one that leads listens, too;
when it ends, another one does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import ConfigurationError
from discovery_server.http import http_server
from discovery_server.http.asgi import CLOSE, respond_text

if TYPE_CHECKING:
    import socket

    from discovery_engine.engine.leadership import Term
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.http.guard import Endpoint
    from discovery_server.http_service import HttpService

logger = logging.getLogger(__name__)

_BIND_RETRY_INTERVAL = 1.0  # seconds between two tries of an address that is taken


def lease_name(endpoint: Endpoint) -> str:
    """Return the name of the lease for serving this address, which only one process has."""
    return f"http {endpoint.host}:{endpoint.port}"


class SharedHttp:
    """Serves an address for the terms in which this process leads."""

    def __init__(
        self,
        endpoint: Endpoint,
        open_service: Callable[[Callable[[ASGIApp], ASGIApp]], HttpService],
        warnings: Sequence[str],
    ) -> None:
        """`open_service` takes what `HttpService` has as `around`.

        `warnings` are logged whenever it begins to serve.
        """
        self._endpoint = endpoint
        self._open_service = open_service
        self._warnings = warnings

    async def serve(self, term: Term) -> None:
        """Serve until the term is lost."""
        if (listener := await self._listener(term)) is None:
            return
        with closing(listener):
            service = self._open_service(partial(TermGate, term=term))
            await service.prepare()
            logger.info("Serving MCP at %s, too", http_server.address(listener, self._endpoint.tls))
            for warning in self._warnings:
                logger.warning("%s", warning)
            async with open_task_group() as tasks:
                tasks.start_soon(_stop, service, term)
                # Calls in flight end in peace also when this process is asked to end.
                with anyio.CancelScope(shield=True):
                    await service.serve(listener)
                tasks.cancel_scope.cancel()
        logger.info("MCP is no longer served over HTTP by this process")

    async def _listener(self, term: Term) -> socket.socket | None:
        """The listening socket, as soon as the address is free; None if the term is lost."""
        is_said = False
        while not term.lost.is_set():
            try:
                return http_server.listen(self._endpoint)
            except ConfigurationError as error:
                # The leader before may be stopped and hold it, or a program of another kind.
                if not is_said:
                    logger.warning("%s; it is tried again", error.message)
                is_said = True
            with anyio.move_on_after(_BIND_RETRY_INTERVAL):
                await term.lost.wait()
        return None


async def _stop(service: HttpService, term: Term) -> None:
    """Stop the server when its term is lost, or at the end of this task."""
    try:
        await term.lost.wait()
    finally:
        service.stop()


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
