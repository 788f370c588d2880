"""`discovery serve`: the engine and the gateway on a transport, until a signal or the end of stdin.

The remembered catalog answers first; servers are listed in the background after the first answer.
SIGINT, SIGTERM and the end of stdin close everything, also during the start; SIGHUP reloads the
configuration.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import Settings
from discovery_engine.engine import Engine, open_engine
from discovery_engine.errors import ConfigurationError
from discovery_engine.view.notices import lost
from discovery_server import activity, signals, stdio
from discovery_server.client_notifications import open_notifications
from discovery_server.first_answers import remember_first_answer
from discovery_server.gateway import Gateway
from discovery_server.list_changed_hook import open_list_changed_hook
from discovery_server.logs import log_to

if TYPE_CHECKING:
    from discovery_engine.runtime.first_answer import EarlyStart, FirstAnswer
    from discovery_server.http.guard import Endpoint
    from discovery_server.tokens import Tokens

logger = logging.getLogger(__name__)

Config: TypeAlias = str | Path | Settings | None


class Exchanges(Struct, frozen=True):
    """The folder into which exchanges with servers are recorded, or the one to answer from."""

    record: str | None = None
    replay: str | None = None


LIVE = Exchanges()
"""Servers are started and reached, and nothing is recorded."""


async def serve_stdio(
    config: Config = None,
    *,
    environ: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    frozen: bool = False,
    exchanges: Exchanges = LIVE,
    first: FirstAnswer | None = None,
    early: EarlyStart | None = None,
    view: str | None = None,
) -> None:
    """Serve one client over stdin and stdout, until it closes stdin or a signal arrives.

    Args:
        config: As `open_engine` takes it.
        environ: As `open_engine` takes it.
        data_dir: As `open_engine` takes it.
        frozen: As `open_engine` takes it.
        exchanges: Whether exchanges with servers are recorded or replayed.
        first: Where the answer to the first request is remembered for the next start.
        early: What was read from stdin and answered before.
        view: The view of the configuration that the client sees; None for all.

    Raises:
        ConfigurationError: If the configuration cannot be used.
        ViewNotFoundError: If it has no such view.
    """
    async with signals.handled() as handlers:
        with stdio.own_standard_streams() as (stdin, stdout):
            opened = _open_gateway(config, environ, data_dir, exchanges, frozen=frozen, view=view)
            async with opened as (engine, gateway):
                handlers.reload = partial(_reload, engine)
                logger.info("Serving MCP on stdio")
                answered = anyio.Event()
                serve = partial(stdio.serve, gateway, stdin, stdout, early=early, answered=answered)
                if first and engine.settings.cache.enabled:
                    remember = partial(remember_first_answer, engine, gateway, first)
                    await _run(engine, serve, remember, first=answered)
                else:
                    await _run(engine, serve, first=answered)


async def serve_http(  # noqa: PLR0913 - one for each option
    config: Config = None,
    endpoint: Endpoint | None = None,
    *,
    token: str | Tokens | None,
    on_listening: Callable[[str], None] | None = None,
    environ: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    frozen: bool = False,
    exchanges: Exchanges = LIVE,
    view: str | None = None,
) -> None:
    """Serve many clients over streamable HTTP, until the process receives a signal.

    Args:
        config: As `open_engine` takes it.
        endpoint: Where to listen; by default on loopback, on a free port.
        token: The bearer token that every request must have, or several valid ones; None serves
            every request, which is allowed on loopback only.
        on_listening: Called with the address that clients connect to; if None, it is logged.
        environ: As `open_engine` takes it.
        data_dir: The folder of the registry.
        frozen: Use only what the lock file pins.
        exchanges: As `serve_stdio` takes it.
        view: The only view that clients see; with None each has an address of its own.

    Raises:
        ConfigurationError: If the configuration, the address or the token cannot be used.
        ViewNotFoundError: If it has no such view.
    """
    # Importing what HTTP needs would slow down the start of a server on stdio.
    from discovery_server.access_tokens import AccessTokens  # noqa: PLC0415
    from discovery_server.http import guard, http_server  # noqa: PLC0415
    from discovery_server.tokens import parse_tokens  # noqa: PLC0415

    endpoint = endpoint or guard.Endpoint()
    tokens = parse_tokens(token) if isinstance(token, str) else token
    guard.require_allowed(endpoint, has_token=tokens is not None)
    async with (
        signals.handled() as handlers,
        _open_gateway(config, environ, data_dir, exchanges, frozen=frozen, view=view) as (
            engine,
            gateway,
        ),
    ):
        with http_server.listen(endpoint) as listener:
            # The system decides which address a name such as `localhost` has.
            bound = replace(endpoint, host=listener.getsockname()[0])
            guard.require_allowed(bound, has_token=tokens is not None)
            made = http_server.make_app(
                gateway,
                endpoint,
                tokens,
                max_sessions=engine.settings.server.max_sessions,
                on_session_end=engine.close_client,
                access=AccessTokens.of_data_folder(data_dir, environ or os.environ),
            )
            web = http_server.HttpServer(made)
            (on_listening or _log_address)(http_server.address(listener))
            handlers.stop, handlers.reload = web.stop, partial(_reload, engine)
            await _run(engine, partial(web.serve, [listener]))


@asynccontextmanager
async def _open_gateway(
    config: Config,
    environ: Mapping[str, str] | None,
    data_dir: str | Path | None,
    exchanges: Exchanges,
    *,
    frozen: bool,
    view: str | None,
) -> AsyncIterator[tuple[Engine, Gateway]]:
    environ = os.environ if environ is None else environ
    async with open_engine(
        config,
        environ=environ,
        data_dir=data_dir,
        frozen=frozen,
        record=exchanges.record,
        replay=exchanges.replay,
    ) as engine:
        with log_to(engine.settings.log, environ):
            if (lost_at := engine.view.lost_at) is not None:
                logger.warning("%s", lost(lost_at).message)
            async with (
                activity.logged(engine),
                open_notifications(engine) as notifications,
                open_list_changed_hook(engine, environ) as on_list_changed,
            ):
                shown = engine if view is None else engine.in_view(view)
                gateway = Gateway(
                    shown,
                    notifications.of(shown),
                    subscriptions_of=notifications.of,
                    on_list_changed=on_list_changed,
                    view=view,
                )
                with gc_pause.frozen():
                    yield engine, gateway


def _log_address(address: str) -> None:
    logger.info("Serving MCP at %s", address)


async def _run(
    engine: Engine,
    serve: Callable[[], Awaitable[None]],
    *background: Callable[[], Coroutine[Any, Any, None]],
    first: anyio.Event | None = None,
) -> None:
    """Serve until `serve` returns; servers are listed after `first`."""
    async with open_task_group() as tasks:
        for task in background:
            tasks.start_soon(task)
        tasks.start_soon(_keep_fresh, engine, first)
        await serve()
        tasks.cancel_scope.cancel()


async def _keep_fresh(engine: Engine, first: anyio.Event | None) -> None:
    if first:
        await first.wait()
    try:
        await engine.run_maintenance()
    except Exception:  # the last catalog can still be served
        logger.exception("The catalog is no longer refreshed")


async def _reload(engine: Engine) -> None:
    try:
        await engine.reload()
    except ConfigurationError as error:
        logger.warning("The configuration was not reloaded, the last one stays in use:\n%s", error)
    else:
        logger.info("The configuration was reloaded")
