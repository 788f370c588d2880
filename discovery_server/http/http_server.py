"""The HTTP server, and the application that it runs."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from msgspec import Struct

from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.errors import ConfigurationError
from discovery_server.access_token import MCP_SCOPES
from discovery_server.http.authorization import Authorization, RequiredScopes
from discovery_server.http.browser_sessions import BrowserSessions, SessionEndpoint
from discovery_server.http.client_addresses import is_loopback
from discovery_server.http.connections import (
    Connection,
    ConnectionLimits,
    Connections,
    limits_of_process,
)
from discovery_server.http.early_refusals import API_PATH, EVENTS_PATH, METRICS_PATH
from discovery_server.http.graceful_shutdown import GracefulShutdown
from discovery_server.http.guard import Endpoint, Guard
from discovery_server.http.monitoring import HealthEndpoint
from discovery_server.http.paths import Paths, WithoutWebSockets
from discovery_server.http.relayed_clients import RelayedClients
from discovery_server.http.sessions import Sessions
from discovery_server.http.streamable_http import StreamableHttp
from discovery_server.http.users import Users
from discovery_server.token_limits import NO_LIMITS, NO_PRINCIPALS

if TYPE_CHECKING:
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import ASGIApp
    from discovery_server.http.tls_files import Tls
    from discovery_server.http.users import User
    from discovery_server.relay import Relay
    from discovery_server.request_state import StateSealer
    from discovery_server.token_limits import TokenLimits
    from discovery_server.tokens import Tokens

PATH = "/mcp"
SESSION_PATH = "/session"
PAGE_PATH = "/page"
ICON_PATH = "/favicon.ico"  # browsers ask for it, whatever a page says
HEALTH_PATH = "/health"
_METRICS_SCOPES = frozenset({"read"})
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


class OwnerApps(Struct, frozen=True):
    """What does all that only owners may."""

    api: ASGIApp
    """At `/api` and `/events`."""
    page: ASGIApp
    """At `/` and `/page`; without a session of a browser it shows nothing."""
    browsers: BrowserSessions
    """They count as the token that opened them."""
    metrics: ASGIApp | None = None
    """At `/metrics`."""


def make_app(  # noqa: PLR0913 - one for each part
    gateway: Gateway,
    endpoint: Endpoint,
    tokens: Tokens | None = None,
    *,
    max_sessions: int = ServeSettings().max_sessions,
    on_session_end: Callable[[str], object] = lambda _: None,
    access: AccessTokens | None = None,
    owner: OwnerApps | None = None,
    sealer: StateSealer | None = None,
    relay: Relay | None = None,
) -> ASGIApp:
    """The ASGI application that serves MCP at `/mcp`, each view at `/mcp/NAME`, and `/health`.

    A token of one view has that view at `/mcp`, too, and finds no other view. One that is limited
    to servers or tools finds those alone at each address.

    Args:
        gateway: What answers the requests.
        endpoint: The valid host names.
        tokens: The valid tokens; None requires no token.
        max_sessions: The number of sessions in the handshake era.
        on_session_end: Called with the id of each of them that has ended, and of each client
            without one whose token or view has.
        access: Further tokens, which may be created and revoked while this is served.
        owner: What is served beside MCP; never without a token.
        sealer: As `ModernCalls` takes it; the ids of sessions end with its name of this gateway.
        relay: Passes requests to the other gateways of a database, and answers theirs.
    """
    users = Users(tokens, access) if tokens else None

    def gateway_of(
        path: str, bound: str | None, limits: TokenLimits, principals: frozenset[str] | None
    ) -> Gateway | None:
        prefix, _, named = path.removesuffix("/").partition(f"{PATH}/")
        if prefix != ("" if named else PATH):
            return None
        if bound is not None and named not in ("", bound):
            return None
        is_own = not named and bound in (None, gateway.view)
        shown = gateway if principals is None else gateway.visible_to(principals)
        found = shown if is_own else shown.in_view(named or bound or "")
        if found is None or not found.is_configured:
            return None
        return found if limits == NO_LIMITS else found.limited(limits)

    def gateway_of_user(user: User | None, view: str | None) -> Gateway | None:
        path = PATH if view == gateway.view else f"{PATH}/{view}"
        if user is None:
            return gateway_of(path, None, NO_LIMITS, NO_PRINCIPALS)
        return gateway_of(path, user.view, user.limits, user.principals)

    def is_open(shown: Gateway, user: str | None) -> bool:
        is_owner = users is not None and users.is_owner(user)
        has_token = users is None or users.has(user)
        return shown.is_configured and has_token and shown.is_open_to(owner=is_owner)

    sessions = Sessions(max_sessions, on_session_end, at=sealer.gateway if sealer else "")
    relayed = (relay, RelayedClients(users, gateway_of_user)) if relay else None
    mcp = StreamableHttp(gateway_of, sessions, is_open, on_session_end, sealer, relayed)
    app: ASGIApp = WithoutWebSockets(mcp)
    open_to_all: dict[str, ASGIApp] = {HEALTH_PATH: WithoutWebSockets(HealthEndpoint())}
    if users is not None:
        app = RequiredScopes(app, MCP_SCOPES, "clients of MCP")
        if owner is not None:
            app = Paths(_of_owners(owner), app)
            page = WithoutWebSockets(owner.page)
            session = SessionEndpoint(owner.browsers, users, owner.page)
            open_to_all |= {"/": page, PAGE_PATH: page, ICON_PATH: page, SESSION_PATH: session}
        app = Authorization(app, users, owner.browsers if owner else None)
    return Guard(Paths(open_to_all, app), endpoint)


def _of_owners(owner: OwnerApps) -> dict[str, ASGIApp]:
    """What needs a token, beside MCP, by paths."""
    applications = {API_PATH: owner.api, EVENTS_PATH: owner.api}
    if owner.metrics is not None:
        metrics = WithoutWebSockets(owner.metrics)
        applications[METRICS_PATH] = RequiredScopes(metrics, _METRICS_SCOPES, "metrics")
    return applications


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
    from discovery_server.http.tls_connections import Handshake  # noqa: PLC0415 - seldom used

    return Handshake(connections, Connection(connections, **options), tls.context)
