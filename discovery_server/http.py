"""Streamable HTTP for both protocol eras, behind the guard."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from discovery_engine.config.settings import ServeSettings
from discovery_engine.errors import ConfigurationError, Origin, Problem
from discovery_server.authorization import Authorization
from discovery_server.connections import (
    Connection,
    ConnectionLimits,
    Connections,
    limits_of_process,
)
from discovery_server.farewell import Farewell
from discovery_server.guard import Endpoint, Guard
from discovery_server.http_sessions import IDLE_LIFE, Sessions
from discovery_server.message_size import MessageSize
from discovery_server.plain_errors import PlainErrors

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp

    from discovery_server.tokens import Tokens

PATH = "/mcp"
_OTHER_PORT = "choose another port; 0 takes a free one"
_OF_ALL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - all addresses, and one of them
_GOODBYE = 2.0  # seconds that calls under way get when the server is told to stop
_KEEP_ALIVE = 60  # seconds that a connection without a request stays
_BACKLOG = 512  # connections that wait to be accepted
# asyncio accepts this many before any of them can be turned away, so each costs a descriptor.
_ACCEPTED_AT_ONCE = 16
_LAST_GOODBYE = 5  # seconds for a client that does not read what it is sent meanwhile


def make_app(
    server: Server[Any],
    endpoint: Endpoint,
    tokens: Tokens | None = None,
    *,
    max_sessions: int = ServeSettings().max_sessions,
    on_session_end: Callable[[str], object] = lambda _: None,
) -> ASGIApp:
    """The ASGI application that serves MCP at `/mcp`.

    Args:
        server: What answers.
        endpoint: For whom it is.
        tokens: What opens it; if None, nobody is asked for a token.
        max_sessions: How many sessions clients of the handshake era may have.
        on_session_end: Called with the id of each of them that has ended.
    """
    # Our guard is exact about names and stands before every route; the SDK's would come second.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        max_sessions=2 * max_sessions,  # `Sessions` ends some before that
        session_idle_timeout=IDLE_LIFE,
    )
    app = Sessions(
        MessageSize(PlainErrors(app)), path=PATH, most=max_sessions, on_end=on_session_end
    )
    return Guard(Authorization(app, tokens) if tokens else app, endpoint)


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves the signals to us, and its clients in good order."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        self._farewell = Farewell(app, _GOODBYE)
        self.connections = Connections(limits or limits_of_process())
        config = uvicorn.Config(
            self._farewell,
            http=cast("type[asyncio.Protocol]", partial(Connection, self.connections)),
            log_config=None,
            access_log=False,
            proxy_headers=False,  # whoever connects could name any address as its own
            server_header=False,
            ws="none",
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_LAST_GOODBYE,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # what is not accepted at once waits in the system

    def stop(self) -> None:
        self.should_exit = True
        self._farewell.say()


def listen(endpoint: Endpoint) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: If the address cannot be had.
    """
    host, port = endpoint.host, endpoint.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as exc:
        reason = str(exc.strerror or exc).partition(" (while attempting")[0]
        message = f"cannot listen on {host}:{port}: {reason}"
        is_of_port = exc.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = _OTHER_PORT if is_of_port else "choose an address of this machine"
        raise ConfigurationError([Problem(Origin("--http"), "", message, hint)]) from exc
    # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it a client that
    # keeps its connection waits 44 ms for each answer (Nagle's algorithm against delayed ACKs).
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def address(listener: socket.socket) -> str:
    """Where clients on this machine find the server, for instance `http://127.0.0.1:8000/mcp`."""
    host, port = listener.getsockname()[:2]
    host = _OF_ALL.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
