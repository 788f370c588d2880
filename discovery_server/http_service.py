"""Assembles the service of `discovery serve --http`: MCP, the API with its feed, and the page.

Nothing else makes this application, so what is tested is what is shipped. What must run while it
is served runs with it:

- `StreamableHttp.run` ends what is in progress for revoked tokens and removed views, and answers
  what other gateways pass on;
- `EventFeed.run` numbers and sends events, from the first client on;
- `TransientServers.run` ends transient servers, from the first request of the API on;
- `StateSealer.prepare` and `SharedTokens.follow` read what the gateways of a database share.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import ConfigurationError
from discovery_engine.store.gateway_records import STATE_KEY
from discovery_server.access_token import MCP_SCOPES, NO_LIMITS, NO_PRINCIPALS
from discovery_server.access_tokens import AccessTokens
from discovery_server.api.event_feed import EventFeed
from discovery_server.http import http_server
from discovery_server.http.asgi import (
    API_PATH,
    EVENTS_PATH,
    HEALTH_PATH,
    ICON_PATH,
    METRICS_PATH,
    PAGE_PATH,
    SESSION_PATH,
    OnFirstRequest,
    Paths,
    WithoutWebSockets,
)
from discovery_server.http.authorization import Authorization, RequiredScopes
from discovery_server.http.browser_sessions import FOLDER, BrowserSessions, SessionEndpoint
from discovery_server.http.guard import Guard
from discovery_server.http.http_server import PATH, HttpServer
from discovery_server.http.monitoring import HealthEndpoint, MetricsEndpoint
from discovery_server.http.sessions import Sessions
from discovery_server.http.stateless_requests import RelayedClients
from discovery_server.http.streamable_http import StreamableHttp
from discovery_server.http.users import Users
from discovery_server.relay import Relay
from discovery_server.request_state import StateSealer
from discovery_server.stored_tokens import SharedTokens

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine
    from pathlib import Path

    from discovery_engine.engine import Engine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_server.access_token import TokenLimits
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import ASGIApp
    from discovery_server.http.connections import ConnectionLimits
    from discovery_server.http.guard import Endpoint
    from discovery_server.http.users import User
    from discovery_server.tokens import Tokens

_METRICS_SCOPES = frozenset({"read"})


class HttpService:
    """The service at one address: MCP at `/mcp`, each view at `/mcp/NAME`, and `/health`.

    With tokens also `/metrics`, the API at `/api` and `/events`, and the page at `/`. A token of
    one view has that view at `/mcp`, too, and finds no other view. One that is limited to servers
    or tools finds those alone at each address.
    """

    def __init__(
        self,
        engine: Engine,
        gateway: Gateway,
        endpoint: Endpoint,
        tokens: Tokens | None,
        data: Path,
        *,
        limits: ConnectionLimits | None = None,
    ) -> None:
        """Serve nothing yet.

        Args:
            engine: That of the gateway.
            gateway: What answers the requests of MCP.
            endpoint: The valid host names, and the certificate.
            tokens: The valid tokens, beside those of the data folder; None requires no token.
            data: The data folder.
            limits: Of connections; by default as this process has descriptors.
        """
        self._engine, self._gateway, self._data = engine, gateway, data
        self._feed = EventFeed(engine)
        self._sealer = _sealer(engine)
        self._shared = _shared_tokens(engine, data)
        self._api_made = anyio.Event()
        self._access = AccessTokens.of_data_folder(data, os.environ, shared=self._shared)
        self._users = Users(tokens, self._access) if tokens else None
        self._browsers = BrowserSessions(data / FOLDER, self._users) if self._users else None
        self._mcp = self._make_mcp()
        self.app: ASGIApp = Guard(self._make_app(), endpoint)
        """The application that answers requests, also where no server runs it."""
        has_tokens = tokens is not None
        self._web = HttpServer(self.app, limits, has_websockets=has_tokens, tls=endpoint.tls)

    async def prepare(self) -> None:
        """Read what the gateways of a database share, before anything is served."""
        if self._shared:
            await self._shared.prepare()

    async def serve(self, listener: socket.socket) -> None:
        """Serve at a socket until `stop` is called."""
        async with open_task_group() as tasks:
            for run in self._background():
                tasks.start_soon(run)
            await self._web.serve([listener])
            tasks.cancel_scope.cancel()
        await self._mcp.close()

    def stop(self) -> None:
        """Accept no more connections; calls in flight have a moment to end."""
        self._web.stop()

    def new_link(self, address: str) -> str:
        """Return the page's address with a code that opens it once; empty if there is no page."""
        try:
            return self._browsers.new_link(address) if self._browsers else ""
        except OSError as error:
            logger.warning("No session of a browser can be stored: %s", error)
            return ""

    def _background(self) -> Iterator[Callable[[], Coroutine[Any, Any, object]]]:
        """Yield the functions that run while this is served."""
        yield self._mcp.run
        yield self._sealer.prepare
        if self._shared:
            yield self._shared.follow
        yield self._feed.run
        yield self._run_transient

    async def _run_transient(self) -> None:
        await self._api_made.wait()
        await self._transient.run()

    def _make_app(self) -> ASGIApp:
        """Each path with the tokens that it needs."""
        app: ASGIApp = WithoutWebSockets(self._mcp)
        open_to_all: dict[str, ASGIApp] = {HEALTH_PATH: WithoutWebSockets(HealthEndpoint())}
        if self._users is not None and self._browsers is not None:
            page = OnFirstRequest(partial(_make_page, self._browsers))
            api = OnFirstRequest(self._make_api)
            metrics = WithoutWebSockets(MetricsEndpoint(self._engine))
            with_token: dict[str, ASGIApp] = {
                API_PATH: api,
                EVENTS_PATH: api,
                METRICS_PATH: RequiredScopes(metrics, _METRICS_SCOPES, "metrics"),
            }
            app = Paths(with_token, RequiredScopes(app, MCP_SCOPES, "clients of MCP"))
            app = Authorization(app, self._users, self._browsers)
            open_to_all |= dict.fromkeys(("/", PAGE_PATH, ICON_PATH), WithoutWebSockets(page))
            session = SessionEndpoint(self._browsers, self._users, page)
            open_to_all[SESSION_PATH] = WithoutWebSockets(session)
        return Paths(open_to_all, app)

    def _make_mcp(self) -> StreamableHttp:
        """MCP, with the gateway of each path and user."""
        engine, gateway, users, sealer = self._engine, self._gateway, self._users, self._sealer

        def gateway_of(
            path: str, bound: str | None, limits: TokenLimits, principals: frozenset[str] | None
        ) -> Gateway | None:
            prefix, _, named = path.removesuffix("/").partition(f"{PATH}/")
            if prefix != ("" if named else PATH):
                return None
            if bound is not None and named not in ("", bound):
                return None
            is_own = not named and bound in (None, gateway.view)
            visible_gateway = gateway if principals is None else gateway.visible_to(principals)
            path_gateway = (
                visible_gateway if is_own else visible_gateway.in_view(named or bound or "")
            )
            if path_gateway is None or not path_gateway.is_configured:
                return None
            return path_gateway if limits == NO_LIMITS else path_gateway.limited(limits)

        def gateway_of_user(user: User | None, view: str | None) -> Gateway | None:
            path = PATH if view == gateway.view else f"{PATH}/{view}"
            if user is None:
                return gateway_of(path, None, NO_LIMITS, NO_PRINCIPALS)
            return gateway_of(path, user.view, user.limits, user.principals)

        def is_open(gateway: Gateway, user: str | None) -> bool:
            is_owner = users is not None and users.is_owner(user)
            has_token = users is None or users.has(user)
            return gateway.is_configured and has_token and gateway.is_open_to(owner=is_owner)

        most, store = engine.settings.server.max_sessions, engine.gateway_store
        sessions = Sessions(most, engine.close_client, at=sealer.gateway)
        relayed = (Relay(store, sealer), RelayedClients(users, gateway_of_user)) if store else None
        return StreamableHttp(gateway_of, sessions, is_open, engine.close_client, sealer, relayed)

    def _make_api(self) -> ASGIApp:
        from discovery_server.api.application import make_api  # noqa: PLC0415 - 100 ms with Starlette

        self._api_made.set()
        return make_api(self._engine, self._feed, self._transient, self._access)

    @cached_property
    def _transient(self) -> TransientServers:
        from discovery_server.api.transient_routes import open_transient  # noqa: PLC0415 - as above

        return open_transient(self._engine, self._feed, self._data, os.environ)


def _sealer(engine: Engine) -> StateSealer:
    """Return the sealer of states, with the key of all gateways of a database if there is one."""
    store, name = engine.gateway_store, gateway_name(os.environ)
    key = partial(store.sealing_key, os.environ.get(STATE_KEY, "")) if store else None
    return StateSealer(key, gateway=name)


def _shared_tokens(engine: Engine, data: Path) -> SharedTokens | None:
    """Return the tokens of all gateways of a database, if there is one."""
    store = engine.gateway_store
    return SharedTokens.of_settings(engine.settings, store, data) if store else None


def _make_page(browsers: BrowserSessions) -> ASGIApp:
    from discovery_server.page.page_app import Page  # noqa: PLC0415 - most gateways show no page

    return Page(browsers)


# The name of one of several gateways, by which a balancer finds it again.

VARIABLE = "DISCOVERY_GATEWAY_NAME"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def gateway_name(environ: Mapping[str, str]) -> str:
    """The name of this gateway; empty if it has none.

    Raises:
        ConfigurationError: If it cannot be part of a header.
    """
    name = environ.get(VARIABLE, "")
    if name and not _NAME.fullmatch(name):
        hint = "use up to 63 letters, digits and - _, for instance `gateway-1`"
        message = f"{name!r} cannot be the name of a gateway"
        raise ConfigurationError.of_file("SERVE_NAME_INVALID", VARIABLE, message, hint)
    return name


logger = logging.getLogger(__name__)

_BIND_RETRY_INTERVAL = 1.0  # seconds between two tries of an address that is taken


async def wait_for_address(endpoint: Endpoint) -> socket.socket:
    """The listening socket of one of the gateways that share an address: the first that has it.

    The system frees the address when its gateway ends, however it does; then another one has it.
    """
    is_said = False
    while True:
        try:
            return http_server.listen(endpoint)
        except ConfigurationError as error:
            if not is_said:
                logger.info("%s; it is tried again until the address is free", error.message)
            is_said = True
        await anyio.sleep(_BIND_RETRY_INTERVAL)


async def serve_shared(
    service: HttpService, listener: socket.socket, endpoint: Endpoint, warnings: Sequence[str]
) -> None:
    """Serve over HTTP beside stdio; `warnings` are logged when it begins."""
    await service.prepare()
    logger.info("Serving MCP at %s, too", http_server.address(listener, endpoint.tls))
    for warning in warnings:
        logger.warning("%s", warning)
    async with open_task_group() as tasks:
        tasks.start_soon(_stop, service)
        # Calls in flight end in peace also when this process is asked to end.
        with anyio.CancelScope(shield=True):
            await service.serve(listener)
        tasks.cancel_scope.cancel()


async def _stop(service: HttpService) -> None:
    """Stop the server at the end of this task."""
    try:
        await anyio.sleep_forever()
    finally:
        service.stop()
