"""`discovery serve`: the engine and the gateway on a transport, until a signal or the end of stdin.

The remembered catalog answers first; servers are listed in the background after the first answer.
SIGINT, SIGTERM and the end of stdin close everything, also during the start; SIGHUP reloads the
configuration.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.config.own_entry import served_port
from discovery_engine.engine import Engine, open_engine
from discovery_engine.errors import ConfigurationError
from discovery_engine.errors.extras import extra_missing
from discovery_engine.view.notices import lost
from discovery_server import event_log, signals, stdio
from discovery_server.client_notifications import open_notifications
from discovery_server.first_answers import remember_first_answer
from discovery_server.gateway import Gateway
from discovery_server.list_changed_hook import open_list_changed_hook
from discovery_server.logs import log_to

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from discovery_engine.engine.first_answer import EarlyStart, FirstAnswer
    from discovery_server.http.guard import Endpoint
    from discovery_server.http.tls_files import Tls
    from discovery_server.tokens import Tokens

# Exports the spans of calls, if the environment says where to.
#
#     pip install 'mcp-discovery-engine[otel]'
#     OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 discovery serve
#
# The variables are those of OpenTelemetry. A program that opens an engine itself sets up its own
# tracer provider, and needs none of this.

logger = logging.getLogger(__name__)

Background: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_NEXT_TRY = 30.0  # seconds after an unexpected error of what is served over HTTP
_FIRST_ANSWER = 1.0  # seconds at most in which nothing else is loaded than the first answer needs


class GatewayOptions(Struct, frozen=True):
    """The options of a gateway; all but `view` are those of `open_engine`."""

    config: str | None = None
    data_dir: str | None = None
    frozen: bool = False
    record: str | None = None
    replay: str | None = None
    view: str | None = None
    """The view of the configuration that is served; None for all of it."""


class SharedAddress(Struct, frozen=True):
    """The address at which one of the gateways of a data folder serves HTTP beside its stdio."""

    endpoint: Endpoint
    tokens: Tokens | None
    """The valid tokens; None serves every request."""
    warnings: tuple[str, ...] = ()
    """Warnings to the owner, logged whenever the address is served."""


async def serve_stdio(
    options: GatewayOptions,
    *,
    first: FirstAnswer | None = None,
    early: EarlyStart | None = None,
    shared: SharedAddress | None = None,
) -> None:
    """Serve one client over stdin and stdout, until it closes stdin or a signal arrives.

    Args:
        options: The configuration, and the part of it that is served.
        first: The store of the answer to the first request, for the next start.
        early: The input that was read, and maybe answered, before.
        shared: The address to serve HTTP at while no other gateway of the data folder does.

    Raises:
        ConfigurationError: If the configuration, or what is shared, cannot be used.
        ViewNotFoundError: If it has no such view.
    """
    if shared:
        from discovery_server.http.guard import require_allowed  # noqa: PLC0415 - as in serve_http

        require_allowed(shared.endpoint, has_token=shared.tokens is not None)
    async with (
        _served_port(shared.endpoint if shared else None, options.data_dir, is_shared=True),
        signals.handled() as handlers,
    ):
        with stdio.own_standard_streams() as (stdin, stdout):
            async with _open_gateway(options) as (engine, gateway):
                handlers.reload = partial(_reload, engine)
                logger.info("Serving MCP on stdio")
                answered = anyio.Event()
                serve = partial(stdio.serve, gateway, stdin, stdout, early=early, answered=answered)
                background: list[Background] = []
                if first and engine.settings.cache.enabled:
                    remember = partial(remember_first_answer, engine, gateway, first, answered)
                    background.append(remember)
                if shared:
                    handlers.reload = partial(_reload, engine, shared.endpoint.tls)
                    share = partial(_share_http, engine, gateway, shared, answered)
                    background.append(share)
                await _run(engine, serve, *background, first=answered)


async def serve_http(
    options: GatewayOptions,
    endpoint: Endpoint,
    *,
    tokens: Tokens | None,
    on_listening: Callable[[str, str], None],
) -> None:
    """Serve many clients over streamable HTTP, until the process receives a signal.

    Args:
        options: The configuration, and the part of it that is served. Without a `view`, each view
            has an address of its own.
        endpoint: The address to listen at.
        tokens: The valid bearer tokens; None serves every request, which is allowed on loopback
            only.
        on_listening: Called with the address that clients connect to, and the address that opens
            the page once, which is empty if there is none.

    Raises:
        ConfigurationError: If the configuration, the address or the token cannot be used.
        ViewNotFoundError: If it has no such view.
    """
    # Importing what HTTP needs would slow down the start of a server on stdio.
    from discovery_server.http import guard, http_server  # noqa: PLC0415
    from discovery_server.http_service import HttpService  # noqa: PLC0415

    guard.require_allowed(endpoint, has_token=tokens is not None)
    async with (
        _served_port(endpoint, options.data_dir),
        signals.handled() as handlers,
        _open_gateway(options) as (engine, gateway),
    ):
        with http_server.listen(endpoint) as listener:
            # The system decides which address a name such as `localhost` has.
            bound = replace(endpoint, host=listener.getsockname()[0])
            guard.require_allowed(bound, has_token=tokens is not None)
            service = HttpService(engine, gateway, endpoint, tokens, engine.registry_file.parent)
            await service.prepare()
            address = http_server.address(listener, endpoint.tls)
            on_listening(address, service.new_link(address))
            handlers.stop, handlers.reload = service.stop, partial(_reload, engine, endpoint.tls)
            await _run(engine, partial(service.serve, listener))


@asynccontextmanager
async def _served_port(
    endpoint: Endpoint | None, data_dir: str | None, *, is_shared: bool = False
) -> AsyncIterator[None]:
    """A block in which entries for an endpoint are left out; from before the files are read."""
    if endpoint is None or not endpoint.port:
        yield
        return
    with served_port(data_folder(data_dir, os.environ), endpoint.port, is_shared=is_shared):
        yield


@asynccontextmanager
async def _open_gateway(options: GatewayOptions) -> AsyncIterator[tuple[Engine, Gateway]]:
    environ, view = os.environ, options.view
    async with open_engine(
        options.config,
        data_dir=options.data_dir,
        frozen=options.frozen,
        record=options.record,
        replay=options.replay,
    ) as engine:
        with log_to(engine.settings.log, environ), exporting_spans(environ):
            if (lost_at := engine.view.lost_at) is not None:
                logger.warning("%s", lost(lost_at).message)
            async with (
                event_log.logged(engine),
                open_notifications(engine) as notifications,
                open_list_changed_hook(engine, environ) as on_list_changed,
            ):
                scoped_engine = engine if view is None else engine.in_view(view)
                gateway = Gateway(
                    scoped_engine,
                    notifications.of(scoped_engine),
                    subscriptions_of=notifications.of,
                    on_list_changed=on_list_changed,
                    view=view,
                )
                with gc_pause.frozen():
                    yield engine, gateway


async def _share_http(
    engine: Engine,
    gateway: Gateway,
    shared: SharedAddress,
    answered: anyio.Event,
) -> None:
    """Serve HTTP beside stdio while the address is no other gateway's."""
    with anyio.move_on_after(_FIRST_ANSWER):  # its own client comes first
        await answered.wait()
    from discovery_server.http_service import (  # noqa: PLC0415 - the same
        HttpService,
        serve_shared,
        wait_for_address,
    )

    endpoint, data = shared.endpoint, engine.registry_file.parent
    while True:
        try:
            with await wait_for_address(endpoint) as listener:
                async with _served_port(endpoint, str(data), is_shared=True):
                    service = HttpService(engine, gateway, endpoint, shared.tokens, data)
                    await serve_shared(service, listener, endpoint, shared.warnings)
        except Exception:  # the client on stdio is served all the same
            logger.exception("HTTP is not served by this process; it is tried again")
        await anyio.sleep(_NEXT_TRY)


async def _run(
    engine: Engine,
    serve: Callable[[], Awaitable[None]],
    *background: Background,
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


async def _reload(engine: Engine, tls: Tls | None = None) -> None:
    if tls is not None:
        await anyio.to_thread.run_sync(_reload_certificate, tls)
    try:
        await engine.reload()
    except ConfigurationError as error:
        logger.warning("The configuration was not reloaded, the last one stays in use:\n%s", error)
    else:
        logger.info("The configuration was reloaded")


def _reload_certificate(tls: Tls) -> None:
    try:
        certificate = tls.reload(datetime.now(UTC))
    except ConfigurationError as error:
        logger.warning("The certificate was not reloaded, the last one stays in use:\n%s", error)
        return
    for notice in certificate.notices:
        logger.warning("%s", notice)


_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def exporting_spans(environ: Mapping[str, str]) -> Iterator[None]:
    """A block in which spans are exported as `environ` says; what waits is sent at its end."""
    kind = _kind(environ)
    provider = _provider(kind, environ) if kind else None
    try:
        yield
    finally:
        if provider is not None:
            provider.shutdown()


def _kind(environ: Mapping[str, str]) -> str:
    """`otlp`, `console`, or empty for no export."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    default = "otlp" if any(map(environ.get, _ENDPOINTS)) else ""
    kind = environ.get(_EXPORTER, default).strip().lower()
    if kind in ("otlp", "console"):
        return kind
    if kind not in ("", "none"):
        logger.warning("$%s has %r, and `otlp` and `console` are known", _EXPORTER, kind)
    return ""


def _provider(kind: str, environ: Mapping[str, str]) -> TracerProvider | None:
    # What exports takes half a second to load.
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
            SpanExporter,
        )

        exporter: SpanExporter = ConsoleSpanExporter(out=sys.stderr)
        if kind == "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
                OTLPSpanExporter,
            )

            exporter = OTLPSpanExporter()
    except ImportError as error:
        logger.warning(
            "%s", extra_missing("otel", "the export of spans", error.name or "opentelemetry")
        )
        return None
    name = environ.get("OTEL_SERVICE_NAME") or "discovery"
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider
