"""Opens an engine: makes its components, restores what is stored, and closes them at the end."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.data_folder import VARIABLE as DATA_FOLDER
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.engine.call_record import CallRecorder
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.engine.configuration_loader import (
    ConfigurationLoader,
    QuestionPolicy,
    SettingsReader,
    read_settings,
)
from discovery_engine.engine.core import EngineCore, Environment, UseCounter
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.executor import ToolExecutor
from discovery_engine.engine.health import ServerProber
from discovery_engine.engine.lister import ServerLister
from discovery_engine.engine.registered_servers import RegisteredServers
from discovery_engine.engine.reranking import Reranking
from discovery_engine.engine.restore import (
    open_registry_or_fallback,
    registry_path,
    unchanged_settings,
)
from discovery_engine.engine.result_store import ResultStore, SharedResults
from discovery_engine.engine.semantic_search import SemanticSearch
from discovery_engine.engine.server_record import ServerRecorder
from discovery_engine.engine.upstreams import OnTried, RateLimits, Upstreams
from discovery_engine.engine.webhook_dispatcher import WebhookDispatcher
from discovery_engine.errors import UpstreamError
from discovery_engine.events import EventBus
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
from discovery_engine.store.call_log.call_log import CallLog

if TYPE_CHECKING:
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_engine.store.registry import Registry
    from discovery_engine.upstream.session_pool import SessionPool
    from discovery_engine.upstream.transport_opening import OnStderr


@asynccontextmanager
async def open_engine(  # noqa: PLR0913 - each by its name
    config: str | Path | Settings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    secrets: SecretResolver | None = None,
    data_dir: str | Path | None = None,
    clock: Callable[[], float] = time.time,
    frozen: bool = False,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    actor: Actor = "program",
    worker: bool = False,
) -> AsyncIterator[Engine]:
    """Open an engine, which answers at once from what is stored; its sessions end on exit.

    Args:
        config: The path of the configuration, or its settings; searched for if None.
        environ: The environment for that search and for the programs of servers; that of the
            process if None.
        secrets: Resolves `${references}`; if None, they are read from `environ`, files and the
            stored secrets.
        data_dir: The folder of the registry, logins and stored secrets; `$DISCOVERY_DATA_DIR` or
            the user's data folder if None.
        clock: Returns Unix time in seconds.
        frozen: True to use only what the lock file beside the configuration pins.
        record: A folder to write the redacted exchanges with servers to.
        replay: A folder of such exchanges to answer from; no server is started or reached.
        actor: The caller of tools in the call log; meta-tools are called by agents.
        worker: True to store listings only with a claim from the refresh queue; for `work`.

    Raises:
        ConfigurationError: If the configuration, or a lock file that is needed, cannot be used.
    """
    environ = os.environ if environ is None else environ
    folder = {} if data_dir is None else {DATA_FOLDER: os.fspath(data_dir)}

    def load(*, content: bytes | None = None) -> Settings:
        return read_settings(config, {**environ, **folder}, frozen=frozen, content=content)

    unchanged: Settings | None = None
    if not (frozen or isinstance(config, Settings)):
        recall = partial(unchanged_settings, config, environ=environ, data_dir=data_dir)
        unchanged = await anyio.to_thread.run_sync(recall)
    settings = unchanged if unchanged is not None else await anyio.to_thread.run_sync(load)
    data = registry_path(data_dir, environ).parent
    secrets = secrets or StoredSecretResolver(environ, data)
    environment = Environment(
        environ,
        secrets if replay is None else _replayed_secrets(secrets),
        clock,
        data,
        scope=scope_of(settings.path),
        actor=actor,
        record=None if record is None else Path(record),
        replay=None if replay is None else Path(replay),
        is_worker=worker,
    )
    with open_registry_or_fallback(settings, data_dir=data_dir, environ=environ) as store:
        async with AsyncExitStack() as at_end, open_task_group() as tasks:
            core = _make_core(environment, store, tasks, load)
            at_end.push_async_callback(_close_log, core.call_log)
            at_end.push_async_callback(core.reranking.aclose)
            if not (unchanged and await core.state.restore_unchanged(unchanged)):
                files = settings if unchanged is None else await anyio.to_thread.run_sync(load)
                await core.state.restore(await core.configuration.join(files))
            tasks.start_soon(core.semantic.run)
            try:
                yield Engine(core)
            finally:
                core.call_log.hurry()  # a client may kill the process before its servers have ended
                core.results.close()
                core.at_end.close()
            tasks.cancel_scope.cancel()


def _make_core(
    environment: Environment, store: Registry, tasks: TaskGroup, load: SettingsReader
) -> EngineCore:
    """Make the components of an engine, and connect them; nothing is read or started."""
    secrets, clock, data = environment.secrets, environment.clock, environment.data
    events = EventBus()
    state = CatalogState(
        store,
        events,
        secrets=secrets,
        environ=environment.variables,
        clock=clock,
        claimed_only=environment.is_worker,
    )

    def current_settings() -> Settings:
        return state.view.settings

    def on_tried(server: ServerSettings, error: UpstreamError | None) -> Awaitable[None] | None:
        # Most calls succeed at servers that were well, which is nothing to note.
        is_news = error or state.view.catalog.part(server.name).failure
        return lister.note_tried(server, error) if is_news else None

    call_log = CallLog(data, environment.scope, current_settings, clock=clock)
    upstreams = _make_upstreams(environment, store, tasks, state, call_log, events, on_tried)
    registered = RegisteredServers(store, environment.variables)
    configuration = ConfigurationLoader(load, registered, state, upstreams, events, clock=clock)
    complete = configuration.complete
    lister = ServerLister(
        state,
        upstreams,
        tasks,
        complete=complete,
        on_applied=lambda result: events.publish(result.event),
        clock=clock,
    )
    return EngineCore(
        environment=environment,
        store=store,
        events=events,
        state=state,
        configuration=configuration,
        semantic=SemanticSearch(
            lambda: state.view, state.set_vectors, store, events, secrets=secrets, data=data
        ),
        reranking=Reranking(secrets),
        upstreams=upstreams,
        lister=lister,
        executor=ToolExecutor(state, upstreams, secrets=secrets),
        uses=UseCounter(state, tasks, clock),
        results=ResultStore(
            data, clock=clock, shared=SharedResults(store.gateways) if store.gateways else None
        ),
        prober=ServerProber(state, upstreams, call_log, environment.actor, complete=complete),
        call_log=call_log,
        recorder=CallRecorder(events, call_log, environment.actor),
        webhooks=WebhookDispatcher(store, current_settings, complete, secrets=secrets, clock=clock),
        at_end=ExitStack(),
    )


def _make_upstreams(
    environment: Environment,
    store: Registry,
    tasks: TaskGroup,
    state: CatalogState,
    call_log: CallLog,
    events: EventBus,
    on_tried: OnTried,
) -> Upstreams:
    secrets, rates = environment.secrets, RateLimits(environment.clock)
    # Recording and replaying are imported only for runs that do so.
    if environment.replay is not None:
        from discovery_engine.engine.replayed_upstreams import ReplayedUpstreams  # noqa: PLC0415

        return ReplayedUpstreams(environment.replay, tasks, secrets, rates, on_tried)
    recorder = None
    if environment.record is not None:
        from discovery_engine.engine.recordings import Recorder  # noqa: PLC0415

        recorder = Recorder(environment.record)
    server_recorder = ServerRecorder(call_log, events)
    return Upstreams(
        tasks,
        partial(_open_sessions, environment, store, events, state, server_recorder),
        secrets,
        rates,
        recorder=recorder,
        on_tried=on_tried,
        server_recorder=server_recorder,
    )


async def _close_log(call_log: CallLog) -> None:
    with anyio.CancelScope(shield=True):  # servers may write until their sessions are closed
        await anyio.to_thread.run_sync(call_log.close)


def _open_sessions(
    environment: Environment,
    store: Registry,
    events: EventBus,
    state: CatalogState,
    server_recorder: ServerRecorder,
    on_stderr: OnStderr,
) -> AbstractAsyncContextManager[SessionPool]:
    # Importing them takes longer than answering a search, and most runs need no upstream.
    from discovery_engine.upstream.history import Policy  # noqa: PLC0415
    from discovery_engine.upstream.session_pool import open_sessions  # noqa: PLC0415
    from discovery_engine.upstream.transport_opening import SessionOptions  # noqa: PLC0415

    settings = state.view.settings
    return open_sessions(
        SessionOptions(
            max_connecting=settings.server.max_connecting,
            idle_timeout=settings.server.idle_timeout,
            events=events,
            eras=store.local,
            environ=environment.variables,
            secrets=environment.secrets,
            admit=state.trust_store.admit,
            on_stderr=on_stderr,
            policy=Policy(own_sessions=settings.server.max_own_sessions),
            questions_of=QuestionPolicy(lambda: state.view.settings).of_server,
            logins=environment.token_logins,
            data=environment.data,
            on_message=server_recorder.record_message,
            instance=store.gateways.instance if store.gateways else "",
            pass_env=lambda: state.view.settings.server.pass_env,
        )
    )


def _replayed_secrets(secrets: SecretResolver) -> SecretResolver:
    from discovery_engine.engine.replayed_upstreams import ReplayedSecrets  # noqa: PLC0415 - seldom

    return ReplayedSecrets(secrets)
