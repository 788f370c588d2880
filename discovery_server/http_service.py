"""What a gateway serves over HTTP: MCP, the API with its feed of events, and the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.registry.gateway_store import STATE_KEY
from discovery_engine.runtime.restore import registry_path
from discovery_server.access_tokens import AccessTokens
from discovery_server.api.event_feed import EventFeed
from discovery_server.gateway_name import gateway_name
from discovery_server.http import http_server
from discovery_server.http.browser_sessions import BrowserSessions
from discovery_server.http.monitoring import MetricsEndpoint
from discovery_server.http.paths import OnFirstRequest
from discovery_server.http.users import OWNER
from discovery_server.relay import Relay
from discovery_server.request_state import StateSealer
from discovery_server.shared_tokens import SharedTokens

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from discovery_engine.engine import Engine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import ASGIApp
    from discovery_server.http.connections import ConnectionLimits
    from discovery_server.http.guard import Endpoint
    from discovery_server.tokens import Tokens


class HttpService:
    """The applications of one address; `run` must run while they are served.

    `folder` says where the data folder is, as `open_engine` takes it, and has the environment.
    """

    def __init__(
        self,
        engine: Engine,
        gateway: Gateway,
        endpoint: Endpoint,
        tokens: Tokens | None,
        folder: tuple[str | Path | None, Mapping[str, str]],
    ) -> None:
        self._engine, self._folder = engine, folder
        self._feed, self._browsers = EventFeed(engine), BrowserSessions()
        self._sealer = _sealer(engine, folder[1])
        self._shared = _shared_tokens(engine, folder)
        self._api_made = anyio.Event()
        self._has_tokens, self._tls = tokens is not None, endpoint.tls
        self._app = http_server.make_app(
            gateway,
            endpoint,
            tokens,
            max_sessions=engine.settings.server.max_sessions,
            on_session_end=engine.close_client,
            sealer=self._sealer,
            relay=Relay(store, self._sealer) if (store := engine.gateway_store) else None,
            access=AccessTokens.of_data_folder(*folder, shared=self._shared),
            owner=http_server.OwnerApps(
                api=OnFirstRequest(self._make_api),
                page=OnFirstRequest(partial(_make_page, self._browsers)),
                browsers=self._browsers,
                metrics=MetricsEndpoint(engine),
            ),
        )

    async def prepare(self) -> None:
        """Read what the gateways of a database share, before anything is served."""
        if self._shared:
            await self._shared.prepare()

    async def run(self) -> None:
        """Send events, and let transient servers run, until cancelled."""
        async with open_task_group() as tasks:
            tasks.start_soon(self._sealer.prepare)
            if self._shared:
                tasks.start_soon(self._shared.follow)
            tasks.start_soon(self._feed.run)
            await self._api_made.wait()
            await self._transient.run()

    def new_code(self) -> str:
        """A code with which one browser may open the page; empty without tokens, so no page."""
        return self._browsers.new_code(OWNER) if self._has_tokens else ""

    def web_server(
        self,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
        limits: ConnectionLimits | None = None,
    ) -> http_server.HttpServer:
        """What serves them; `around` makes an application around them."""
        return http_server.HttpServer(
            around(self._app), limits, has_websockets=self._has_tokens, tls=self._tls
        )

    def _make_api(self) -> ASGIApp:
        from discovery_server.api.application import make_api  # noqa: PLC0415 - 100 ms with Starlette

        self._api_made.set()
        return make_api(self._engine, self._feed, self._transient)

    @cached_property
    def _transient(self) -> TransientServers:
        from discovery_server.api.transient_events import open_transient  # noqa: PLC0415 - as above

        data, environ = self._folder
        return open_transient(
            self._engine, self._feed, registry_path(data, environ).parent, environ
        )


def _sealer(engine: Engine, environ: Mapping[str, str]) -> StateSealer:
    """What seals for all gateways of a database, if there is one."""
    store, name = engine.gateway_store, gateway_name(environ)
    key = partial(store.sealing_key, environ.get(STATE_KEY, "")) if store else None
    return StateSealer(key, gateway=name)


def _shared_tokens(
    engine: Engine, folder: tuple[str | Path | None, Mapping[str, str]]
) -> SharedTokens | None:
    """The tokens of all gateways of a database, if there is one."""
    if (store := engine.gateway_store) is None:
        return None
    data = registry_path(*folder).parent
    return SharedTokens.of_settings(engine.settings, store, data)


def _make_page(browsers: BrowserSessions) -> ASGIApp:
    from discovery_server.page.page_app import Page  # noqa: PLC0415 - most gateways show no page

    return Page(browsers)
