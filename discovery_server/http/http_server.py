"""The HTTP server: its socket, its address, what runs an application, and its graceful shutdown.

When it stops, a stream on which a client only listens is ended at once, since it would stay open
forever; a call gets a grace period. Otherwise uvicorn would wait for both, then abort them and log
each as an error.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import uvicorn

from discovery_engine.errors import ConfigurationError
from discovery_server.http.asgi import LISTENS, respond_text
from discovery_server.http.client_addresses import is_loopback
from discovery_server.http.connections import (
    Connection,
    ConnectionLimits,
    Connections,
    Handshake,
    limits_of_process,
)

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Message, Receive, Scope, Send
    from discovery_server.http.guard import Endpoint
    from discovery_server.http.tls_files import Tls

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


PATH = "/mcp"
_OTHER_PORT = "choose another port; 0 takes a free one"
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - wildcard addresses
_GRACE = 2.0  # seconds that calls in flight get on shutdown
_KEEP_ALIVE = 60  # seconds that a connection without a request stays
_BACKLOG = 512  # connections that wait to be accepted
# asyncio accepts this many before we can refuse any of them, and each takes a descriptor.
_ACCEPTED_AT_ONCE = 16
_LONGEST_FRAME = 4096  # bytes that a client of `/events` may send at once
_FRAMES_AT_ONCE = 8  # of a client, before its connection is read no further
_PING = 30.0  # seconds
_GRACEFUL_SHUTDOWN = 5  # seconds for a client that does not read its answer


class HttpServer(uvicorn.Server):
    """A uvicorn server without signal handlers of its own, and with a graceful shutdown."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ConnectionLimits | None = None,
        *,
        has_websockets: bool = False,
        tls: Tls | None = None,
    ) -> None:
        self._shutdown = GracefulShutdown(app, _GRACE)
        self.connections = Connections(limits or limits_of_process())
        make: Callable[..., asyncio.BaseProtocol] = partial(Connection, self.connections)
        if tls is not None:
            make = partial(_handshake, self.connections, tls)
        config = uvicorn.Config(
            self._shutdown,
            http=cast("type[asyncio.Protocol]", make),
            lifespan="off",  # what runs beside requests is `HttpService.serve`'s
            log_config=None,
            access_log=False,
            proxy_headers=False,  # any client could claim any address
            server_header=False,
            ws="websockets-sansio" if has_websockets else "none",
            ws_max_size=_LONGEST_FRAME,
            ws_max_queue=_FRAMES_AT_ONCE,
            ws_ping_interval=_PING,
            ws_per_message_deflate=False,  # compressing for each client costs more than it saves
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # the kernel queues what is not accepted yet

    def stop(self) -> None:
        self.should_exit = True
        self._shutdown.begin()


def listen(endpoint: Endpoint) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: If the address is not available.
    """
    host, port = endpoint.host, endpoint.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as exc:
        # Its own text, and not that of `create_server`, which has the address once more.
        number = 0 if isinstance(exc, socket.gaierror) else exc.errno
        reason = os.strerror(number) if number else exc.strerror or str(exc)
        message = f"cannot listen on {host}:{port}: {reason}"
        is_of_port = exc.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = _OTHER_PORT if is_of_port else "choose an address of this machine"
        code = "SERVE_ADDRESS_UNAVAILABLE"
        raise ConfigurationError.of_file(code, "--http", message, hint) from exc
    # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it a client that
    # keeps its connection waits 44 ms for each answer (Nagle's algorithm against delayed ACKs).
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def address(listener: socket.socket, tls: Tls | None = None) -> str:
    """The address for clients, for instance `http://127.0.0.1:8000/mcp`.

    With TLS it has a name for which the certificate is valid, if that has one that fits.
    """
    bound, port = listener.getsockname()[:2]
    host = _LOOPBACK_OF.get(bound, bound)
    names = tls.certificate.names if tls else ()
    if host not in names and (fitting := _fitting(names, bound)):
        host = fitting
    scheme = "https" if tls else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def _fitting(names: Sequence[str], bound: str) -> str:
    """The first name of a certificate by which clients reach the address; empty if none is."""
    if is_loopback(bound):
        return next(filter(is_loopback, names), "")
    return next((name for name in names if not is_loopback(name)), "")


def _handshake(connections: Connections, tls: Tls, **options: Any) -> asyncio.BaseProtocol:
    return Handshake(connections, Connection(connections, **options), tls.context)
