"""The HTTP server, and the application that it runs."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import uvicorn

from discovery_engine.config.settings import ServeSettings
from discovery_engine.errors import ConfigurationError
from discovery_server.http.authorization import Authorization, Users
from discovery_server.http.connections import (
    Connection,
    ConnectionLimits,
    Connections,
    limits_of_process,
)
from discovery_server.http.graceful_shutdown import GracefulShutdown
from discovery_server.http.guard import Endpoint, Guard
from discovery_server.http.sessions import Sessions
from discovery_server.http.streamable_http import StreamableHttp

if TYPE_CHECKING:
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import ASGIApp
    from discovery_server.tokens import Tokens

PATH = "/mcp"
_OTHER_PORT = "choose another port; 0 takes a free one"
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - wildcard addresses
_GRACE = 2.0  # seconds that calls in flight get on shutdown
_KEEP_ALIVE = 60  # seconds that a connection without a request stays
_BACKLOG = 512  # connections that wait to be accepted
# asyncio accepts this many before we can refuse any of them, and each takes a descriptor.
_ACCEPTED_AT_ONCE = 16
_GRACEFUL_SHUTDOWN = 5  # seconds for a client that does not read its answer


def make_app(
    gateway: Gateway,
    endpoint: Endpoint,
    tokens: Tokens | None = None,
    *,
    max_sessions: int = ServeSettings().max_sessions,
    on_session_end: Callable[[str], object] = lambda _: None,
    access: AccessTokens | None = None,
) -> ASGIApp:
    """The ASGI application that serves MCP at `/mcp`, and each view at `/mcp/NAME`.

    A token of one view has that view at `/mcp`, too, and finds no other address.

    Args:
        gateway: What answers the requests.
        endpoint: The valid host names.
        tokens: The valid tokens; None requires no token.
        max_sessions: The number of sessions in the handshake era.
        on_session_end: Called with the id of each of them that has ended, and of each client
            without one whose token or view has.
        access: Further tokens, which may be created and revoked while this is served.
    """
    users = Users(tokens, access) if tokens else None

    def gateway_of(path: str, bound: str | None) -> Gateway | None:
        prefix, _, named = path.removesuffix("/").partition(f"{PATH}/")
        if prefix != ("" if named else PATH):
            return None
        if bound is not None and named not in ("", bound):
            return None
        is_own = not named and bound in (None, gateway.view)
        found = gateway if is_own else gateway.in_view(named or bound or "")
        return found if found and found.is_configured else None

    def is_open(shown: Gateway, user: str | None) -> bool:
        return shown.is_configured and (users is None or users.has(user))

    sessions = Sessions(max_sessions, on_session_end)
    app: ASGIApp = StreamableHttp(gateway_of, sessions, is_open, on_session_end)
    return Guard(Authorization(app, users) if users else app, endpoint)


class HttpServer(uvicorn.Server):
    """A uvicorn server without signal handlers of its own, and with a graceful shutdown."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        self._shutdown = GracefulShutdown(app, _GRACE)
        self.connections = Connections(limits or limits_of_process())
        config = uvicorn.Config(
            self._shutdown,
            http=cast("type[asyncio.Protocol]", partial(Connection, self.connections)),
            log_config=None,
            access_log=False,
            proxy_headers=False,  # any client could claim any address
            server_header=False,
            ws="none",
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
        reason = str(exc.strerror or exc).partition(" (while attempting")[0]
        message = f"cannot listen on {host}:{port}: {reason}"
        is_of_port = exc.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = _OTHER_PORT if is_of_port else "choose an address of this machine"
        code = "SERVE_ADDRESS_UNAVAILABLE"
        raise ConfigurationError.of_file(code, "--http", message, hint) from exc
    # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it a client that
    # keeps its connection waits 44 ms for each answer (Nagle's algorithm against delayed ACKs).
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def address(listener: socket.socket) -> str:
    """The address for clients on this machine, for instance `http://127.0.0.1:8000/mcp`."""
    host, port = listener.getsockname()[:2]
    host = _LOOPBACK_OF.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
