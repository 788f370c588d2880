"""The engine: opens every part in order, holds the current view, and has the public methods.

    async with open_engine("discovery.yaml") as engine:
        await engine.refresh()
        answer = await engine.search("create an issue")
        best = answer.hits[0].entry.tool
        result = await engine.execute(best.server, best.name, {"title": "It broke"})

Opening reads files only. The remembered catalog answers until `refresh`; no server is started or
reached before `refresh` or `execute`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    suppress,
)
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.catalog import Entry
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import (
    DiscoveryError,
    FailureKind,
    NeedsAuthError,
    ToolNotFoundError,
    concerning,
)
from discovery_engine.events import (
    ConfigurationReloaded,
    Event,
    EventBus,
    Subscription,
)
from discovery_engine.limits import require_query
from discovery_engine.runtime import first_answer
from discovery_engine.runtime.call_record import record_call
from discovery_engine.runtime.catalog_state import CatalogState
from discovery_engine.runtime.configuration_loader import ConfigurationLoader, read_settings
from discovery_engine.runtime.executor import OnUnchecked, ToolExecutor
from discovery_engine.runtime.health import health
from discovery_engine.runtime.ingest import ListingResult, RefreshReport
from discovery_engine.runtime.lazy_upstreams import LazyUpstreams
from discovery_engine.runtime.lister import ServerLister
from discovery_engine.runtime.maintenance import run_maintenance
from discovery_engine.runtime.offering_requests import OfferingRequests
from discovery_engine.runtime.rate_limits import RateLimits
from discovery_engine.runtime.restore import (
    open_registry_or_fallback,
    registry_path,
    unchanged_settings,
)
from discovery_engine.runtime.result_store import ResultStore
from discovery_engine.runtime.semantic_search import SemanticSearch
from discovery_engine.search.usage import RecentFinds
from discovery_engine.secrets.resolver import EnvironmentResolver, SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.offering_access import OfferingList
from discovery_engine.view.offering_addresses import ResourceTarget
from discovery_engine.view.scope import Scope, ShownView, named_scope, scope_or_nothing
from discovery_engine.view.search_answers import TOOLS_ONLY, SearchAnswer, SearchKind
from discovery_engine.view.status import Observation, ServerReport
from discovery_engine.view.view import ToolList, View

if TYPE_CHECKING:
    from discovery_engine.owner.approvals import Approvals
    from discovery_engine.owner.catalog_lock import CatalogLock
    from discovery_engine.owner.reviews import Reviews
    from discovery_engine.owner.server_logins import ServerLogins
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.peer import OnProgress
    from discovery_engine.runtime.call_preview import CallPreview
    from discovery_engine.runtime.recorder import Recorder
    from discovery_engine.upstream.http.logins import Logins
    from discovery_engine.upstream.upstreams import OnStderr, Upstreams


@asynccontextmanager
async def open_engine(
    config: str | Path | Settings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    secrets: SecretResolver | None = None,
    data_dir: str | Path | None = None,
    clock: Callable[[], float] = time.time,
    frozen: bool = False,
    record: str | Path | None = None,
    replay: str | Path | None = None,
) -> AsyncIterator[Engine]:
    """Yield an engine that can answer at once; on exit every session is closed.

    Args:
        config: Where the configuration is; looked for in the usual places if None.
        environ: Where the configuration is looked for, and what programs are started with; the
            process's environment if None.
        secrets: What gives `${references}` their values; `environ` and files if None.
        data_dir: Where to remember; `$DISCOVERY_DATA_DIR` or the user's data folder if None.
        clock: Unix time in seconds.
        frozen: Use only what the lock file beside the configuration pins.
        record: A folder into which exchanges with servers are written, redacted.
        replay: Such a folder: servers are neither started nor reached, and answer from it.

    Raises:
        ConfigurationError: If the configuration, or a lock file that is needed, cannot be used.
    """
    environ = os.environ if environ is None else environ
    load = partial(read_settings, config, environ, frozen=frozen)
    unchanged: Settings | None = None
    if not (frozen or isinstance(config, Settings)):
        recall = partial(unchanged_settings, config, environ=environ, data_dir=data_dir)
        unchanged = await anyio.to_thread.run_sync(recall)
    settings = unchanged if unchanged is not None else await anyio.to_thread.run_sync(load)
    with open_registry_or_fallback(settings, data_dir=data_dir, environ=environ) as store:
        async with open_task_group() as tasks:
            data = registry_path(data_dir, environ).parent
            events, secrets = EventBus(), secrets or EnvironmentResolver(environ)
            if replay is not None:
                secrets = _replayed_secrets(secrets)
            state = CatalogState(store, events, secrets=secrets, environ=environ, clock=clock)
            semantic = SemanticSearch(
                lambda: state.view, state.set_vectors, store, events, secrets=secrets
            )
            configuration = ConfigurationLoader(load, state, events, clock=clock)
            engine = Engine(
                configuration,
                store,
                tasks,
                events,
                state,
                semantic,
                environ=environ,
                secrets=secrets,
                clock=clock,
                data=data,
                record=record,
                replay=replay,
            )
            if not (unchanged and await state.restore_unchanged(unchanged)):
                whole = settings if unchanged is None else await anyio.to_thread.run_sync(load)
                await state.restore(whole)
            tasks.start_soon(semantic.run)
            try:
                yield engine
            finally:
                engine.results.close()
            tasks.cancel_scope.cancel()


class Engine:
    """Created by `open_engine`, which owns its task group."""

    def __init__(  # noqa: PLR0913 - the one place of wiring
        self,
        configuration: ConfigurationLoader,
        store: Registry,
        tasks: TaskGroup,
        events: EventBus,
        state: CatalogState,
        semantic: SemanticSearch,
        *,
        environ: Mapping[str, str],
        secrets: SecretResolver,
        clock: Callable[[], float],
        data: Path,
        record: str | Path | None = None,
        replay: str | Path | None = None,
    ) -> None:
        self._configuration = configuration
        self._data = data
        self._store = store
        self._tasks = tasks
        self._environ = environ
        self._secrets = secrets
        self._clock = clock
        self._events = events
        self._state = state
        self._semantic = semantic
        self._finds = RecentFinds()
        self._replay = replay
        self._upstreams = LazyUpstreams(
            tasks,
            self._open_upstreams,
            secrets,
            RateLimits(clock),
            recorder=_recorder(record),
            on_needs_auth=self._note_missing_login,
        )
        self._lister = ServerLister(
            self._state,
            self._upstreams,
            tasks,
            complete=configuration.complete,
            on_applied=self._on_applied,
            clock=clock,
        )
        self._shown: ShownView | None = None
        self._executor = ToolExecutor(self._state, self._upstreams, secrets=secrets)
        self._offering_requests = OfferingRequests(
            state,
            self._upstreams,
            self._lister,
            events,
            complete=configuration.complete,
            snapshot=lambda: self._snapshot,
            view=lambda: self.view,
        )
        self.results = ResultStore(data, clock=clock)
        """Long results of tools, for those who cut them and read on."""

    # The verbs of the owner are imported on first use: agents never need them.

    @cached_property
    def trust(self) -> Approvals:
        """Which servers may be started: `candidates`, `approve`, `revoke`."""
        from discovery_engine.owner.approvals import Approvals  # noqa: PLC0415

        store = self._state.trust_store
        return Approvals(
            self,
            store,
            self._events,
            secrets=self._secrets,
            environ=self._environ,
            clock=self._clock,
        )

    @cached_property
    def review(self) -> Reviews:
        """Which definitions of tools are accepted: `changes`, `accept`, `history`, `end_loss`."""
        from discovery_engine.owner.reviews import Reviews  # noqa: PLC0415

        return Reviews(self, self._state.trust_store, self._events)

    @cached_property
    def lock(self) -> CatalogLock:
        """The catalog pinned in a file beside the configuration: `write`, `check`."""
        from discovery_engine.owner.catalog_lock import CatalogLock  # noqa: PLC0415

        return CatalogLock(self, self._events)

    @cached_property
    def logins(self) -> ServerLogins:
        """Logins of remote servers: `log_in`, `log_out`."""
        from discovery_engine.owner.server_logins import ServerLogins  # noqa: PLC0415

        return ServerLogins(
            self,
            self._token_logins.store,
            secrets=self._secrets,
            admit=self._state.trust_store.admit,
            clock=self._clock,
        )

    @cached_property
    def _token_logins(self) -> Logins:
        from discovery_engine.secret_store.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.upstream.http.logins import Logins  # noqa: PLC0415

        return Logins(EncryptedStore(self._data, self._environ), clock=self._clock)

    def within(self, scope: Scope) -> Engine:
        """The same engine for those who see a part of its tools only: one that reads and calls.

        It shares sessions and index with this one, and is closed with it.
        """
        return self._within(lambda _: scope)

    def in_view(self, name: str) -> Engine:
        """As `within`, for a view of the configuration, which may be changed meanwhile.

        Without a view of that name, nothing is shown any more.

        Raises:
            ViewNotFoundError: If there is none now; with the nearest names.
        """
        named_scope(self.settings, name)
        return self._within(lambda view: scope_or_nothing(view.settings, name))

    def _within(self, scope: Callable[[View], Scope]) -> Engine:
        scoped = copy(self)
        # The methods of the copy read its own view; so must all that it calls.
        scoped._shown = ShownView(scope, lambda: self._snapshot)  # noqa: SLF001 - of this class
        scoped._offering_requests = self._offering_requests.showing(  # noqa: SLF001
            lambda: scoped._snapshot,  # noqa: SLF001
            lambda: scoped.view,
        )
        return scoped

    @property
    def settings(self) -> Settings:
        return self._snapshot.settings

    @property
    def view(self) -> View:
        """The current snapshot; keep a reference to read consistently several times."""
        return self._snapshot.with_live(self._lister.live(), self._configuration.rejection)

    @property
    def _snapshot(self) -> View:
        """The current view as this engine shows it, without the states of servers."""
        return self._shown.view() if self._shown else self._state.view

    @property
    def has_listings(self) -> bool:
        """Whether the tools of any server are known."""
        return self._snapshot.catalog.has_listings

    def is_listed(self, server: str) -> bool:
        """Whether the tools of a server are known.

        Raises:
            ServerNotFoundError: If it is not configured.
        """
        return self._snapshot.is_known(self._snapshot.addresses.server(server))

    def subscribe(self, *kinds: type[Event]) -> AbstractContextManager[Subscription]:
        """`with engine.subscribe() as events: async for event in events: ...`.

        Args:
            kinds: The classes of the events to receive; all if none is given.
        """
        return self._events.subscribe(*kinds)

    async def health(
        self, observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({})
    ) -> tuple[ServerReport, ...]:
        """A report of every configured server, in the order of names.

        Args:
            observed: What `gateways.observations` read of running gateways; the worst counts.
        """
        states = self._upstreams.states()
        return health(self.view, states, now=self._clock(), observed=observed)

    async def search(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
        include_disabled: bool = False,
        kinds: Collection[SearchKind] = TOOLS_ONLY,
    ) -> SearchAnswer:
        """As `View.search`, and semantically if an embedder is configured and answers in time.

        With `kinds`, resources and prompts are found by their words (`SearchAnswer.offerings`).
        """
        require_query(query)
        if kinds is not TOOLS_ONLY and set(kinds) != {"tool"}:
            return await self._search_kinds(
                query, kinds, server, tags, limit, include_disabled=include_disabled
            )
        await self._state.prepare_search()
        embedding = await self._semantic.embed_query(query)
        answer = self.view.search(
            query,
            server=server,
            tags=tags,
            limit=limit,
            include_disabled=include_disabled,
            query_vectors=embedding.vectors,
        )
        if self.settings.search.learn:
            self._finds.add((hit.entry.key for hit in answer.hits), self._clock())
        return replace(answer, notices=(*answer.notices, *embedding.notices))

    async def _search_kinds(
        self,
        query: str,
        kinds: Collection[SearchKind],
        server: str | None,
        tags: Sequence[str],
        limit: int | None,
        *,
        include_disabled: bool,
    ) -> SearchAnswer:
        answer = SearchAnswer(query, ())
        if "tool" in kinds:
            answer = await self.search(
                query, server=server, tags=tags, limit=limit, include_disabled=include_disabled
            )
        view = self.view
        search = partial(view.search_offerings, query, kinds, server=server, tags=tags, limit=limit)
        # In a thread: the first search after a change makes the index.
        return replace(answer, offerings=await anyio.to_thread.run_sync(search))

    async def wait_embedded(self, *, timeout: float) -> None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until all tools have vectors or none can be computed, at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            await self._semantic.wait_settled()

    async def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        """As `View.list_tools`; a server that was never listed is listed first."""
        name = self._snapshot.addresses.server(server)
        await self._lister.ensure_listed(name)
        return self.view.list_tools(name, include_disabled=include_disabled)

    async def details(
        self, server: str | None, tool: str, *, max_wait: float | None = None
    ) -> Entry:
        """As `View.details`; a server that was never listed is listed first.

        Args:
            server: None if `tool` names its server too, or is the only one of its name.
            tool: The tool's name, as `View.find` reads it.
            max_wait: Seconds to wait for a server that was never listed; None leaves it to its
                `timeouts`.

        Raises:
            ServerStartingError: If that server has not answered by then; it goes on starting.
            UpstreamError: If that server has never been reached, with the reason.
            ConfigurationError: If its entry cannot be used.
        """
        with suppress(DiscoveryError):  # which is raised below, with the present states of servers
            return self._snapshot.details(server, tool)
        try:
            return self.view.details(server, tool)
        except ToolNotFoundError as error:
            if error.server is None or self.view.is_known(ServerName(error.server)):
                raise
            named = error.server, error.tool
        with concerning(*named):
            unknown = self._snapshot.require_connectable(named[0])
            await self._lister.list_server(unknown.name, max_wait=max_wait)
        return self.view.details(server, tool)

    async def execute(
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        on_progress: OnProgress | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        max_wait: float | None = None,
        on_unchecked: OnUnchecked | None = None,
    ) -> JSONObject:
        """Call a tool once and return the upstream's result whole, as raw JSON.

        Args:
            server: None if `tool` names its server too, or is the only one of its name.
            tool: The tool's name, as `View.find` reads it.
            arguments: Checked against the tool's schema before anything is sent, together with
                those that the owner pins.
            on_progress: Awaited with progress, total and message of each notification.
            caller: The client that makes the call: it is asked what the server asks of its user,
                and is notified; with `session: per_client` each has its own session.
            continuation: Its answers to an `input_required` result of the same call.
            max_wait: As `details` takes it; the call itself has the time of its `timeouts`.
            on_unchecked: Called with the reason before arguments are sent that cannot be checked.

        Raises:
            NotFoundError, DisabledError, ServerStartingError: As `details`.
            InvalidArgumentsError: With the tool's signature.
            ConfigurationError: If a `${reference}` in a pinned argument has no value.
            UpstreamError: If the server cannot be reached, times out, or the connection breaks.
        """
        with record_call(self._events, server, tool, arguments, caller) as record:
            await self._configuration.complete()
            entry = await self.details(server, tool, max_wait=max_wait)
            record.set_tool(entry.tool)
            with concerning(entry.tool.server, entry.tool.name):
                result = await self._executor.call(
                    entry.tool,
                    arguments,
                    caller=caller,
                    continuation=continuation,
                    on_progress=on_progress,
                    on_unchecked=on_unchecked,
                )
            record.record_result(result)
        if not result.get("isError") and self._finds.consume(entry.key, self._clock()):
            self._tasks.start_soon(self._state.count_use, entry.key)
        return result

    async def preview(
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        max_wait: float | None = None,
    ) -> CallPreview:
        """What `execute` would send, and where; nothing is sent.

        Raises:
            DiscoveryError: As `execute`, if nothing would be sent.
        """
        await self._configuration.complete()
        entry = await self.details(server, tool, max_wait=max_wait)
        with concerning(entry.tool.server, entry.tool.name):
            return await self._executor.preview(entry, arguments)

    async def list_offerings(
        self, kind: OfferingKind, server: str | None = None, *, include_disabled: bool = False
    ) -> OfferingList:
        """As `View.list_offerings`; a named server that was never listed is listed first."""
        if server is not None:
            await self._lister.ensure_listed(self._snapshot.addresses.server(server))
        return self.view.list_offerings(kind, server, include_disabled=include_disabled)

    async def read_resource(
        self,
        uri: str,
        *,
        server: str | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        max_wait: float | None = None,
    ) -> JSONObject:
        """The server's own result of `resources/read`, as raw JSON.

        Args:
            uri: That of a listed resource, one that a template allows, or either behind the name
                of its server (`discovery://servers/NAME/resources/…`), as lists show it.
            server: The only server to look at; None if the URI is that of one server alone.
            caller: As for `execute`.
            continuation: As for `execute`.
            on_progress: As for `execute`.
            max_wait: As for `execute`.

        Raises:
            ResourceNotFoundError: With the nearest addresses.
            ResourceAmbiguousError: If several servers may have it; with the addresses.
            ResourceDisabledError: If a rule disables it, or its owner has not accepted it.
            ServerNotFoundError, DisabledError, ServerStartingError, UpstreamError: As `execute`.
        """
        return await self._offering_requests.read(
            server,
            uri,
            caller=caller,
            continuation=continuation,
            on_progress=on_progress,
            max_wait=max_wait,
        )

    async def get_prompt(
        self,
        name: str,
        arguments: JSONObject | None = None,
        *,
        server: str | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        max_wait: float | None = None,
    ) -> JSONObject:
        """The server's own result of `prompts/get`, as raw JSON.

        Args:
            name: That of the prompt, or `server:prompt`.
            arguments: Sent unchecked: the server checks them.
            server: The only server to look at; None if it is named, or alone has that prompt.
            caller: As for `execute`.
            continuation: As for `execute`.
            on_progress: As for `execute`.
            max_wait: As for `execute`.

        Raises:
            PromptNotFoundError, PromptAmbiguousError, PromptDisabledError: As `read_resource`.
            ServerNotFoundError, DisabledError, ServerStartingError, UpstreamError: As `execute`.
        """
        return await self._offering_requests.get_prompt(
            server,
            name,
            arguments or {},
            caller=caller,
            continuation=continuation,
            on_progress=on_progress,
            max_wait=max_wait,
        )

    async def complete(
        self, params: JSONObject, *, server: str | None = None, caller: Client | None = None
    ) -> JSONObject:
        """The server's own result of `completion/complete`, as raw JSON.

        Args:
            params: `ref`, in which a prompt or a template is named as lists show it, `argument`,
                and `context` if there is one.
            server: The only server to look at.
            caller: As for `execute`.

        Raises:
            DiscoveryError: As `get_prompt` and `read_resource`.
        """
        return await self._offering_requests.complete(server, params, caller=caller)

    async def watch_resource(self, uri: str, *, server: str | None = None) -> ResourceTarget:
        """Have `ResourceUpdated` published when a resource changes, until `unwatch_resource`.

        Its server is asked once, however many watch, and again when it was lost.

        Args:
            uri: As `read_resource` takes it.
            server: As `read_resource` takes it.

        Raises:
            DiscoveryError: As `read_resource`, and if its server does not notify of updates.
        """
        return await self._offering_requests.watch(server, uri)

    def unwatch_resource(self, target: ResourceTarget) -> None:
        """End one `watch_resource`, whose result is given."""
        self._offering_requests.unwatch(target)

    def expect_client(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare to servers from now on what a client that has connected can be asked.

        A server learns it when its session is opened; else its session is opened anew for the
        first call that needs it, which takes as long as a start.
        """
        self._upstreams.expect(capabilities)

    def close_client(self, client: str) -> None:
        """Close the sessions of a client that has disconnected."""
        self._upstreams.close_client(client)
        self.results.forget(client)

    async def refresh(
        self,
        servers: Iterable[str] | None = None,
        *,
        only_due: bool = False,
        max_wait: float | None = None,
    ) -> RefreshReport:
        """List the tools of servers, concurrently; a failing one does not delay the others.

        Args:
            servers: Which; every enabled one if None.
            only_due: Skip those whose last listing is still fresh.
            max_wait: Seconds to wait for each server, from its own start on. One that has not
                answered by then goes on starting and is named in the report; None leaves it to
                its `timeouts`.

        Raises:
            ServerNotFoundError, ServerDisabledError, UntrustedServerError, ConfigurationError:
                If a named server cannot be listed.
        """
        return await self._lister.refresh(servers, only_due=only_due, max_wait=max_wait)

    async def wait_listed(self, *, timeout: float) -> None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until every enabled server was listed or has failed once, or `timeout` seconds."""
        with anyio.move_on_after(timeout):
            await self._lister.wait_all_listed()

    async def complete_settings(self) -> None:
        """Read the files of the configuration, if what is remembered of them was enough so far.

        Until then `settings` has no transports. It is done before a server is started or reached.
        """
        await self._configuration.complete()

    async def reload(self) -> None:
        """Read the configuration again; servers with the same transport keep their sessions.

        Raises:
            ConfigurationError: If it is invalid; the last valid one then stays in force.
        """
        async with self._configuration.changing:
            before = self._state.view.connectable
            settings = await self._configuration.apply()
            await self._upstreams.close_changed(before, self._state.view.connectable)
            self._events.publish(ConfigurationReloaded(len(settings.servers)))

    async def apply_decisions(self) -> None:
        """Apply approvals, revocations and acceptances made meanwhile; no-op if there are none.

        Raises:
            ConfigurationError: If a lock file that is needed cannot be used any more.
        """
        async with self._configuration.changing:
            if not (self._state.is_complete or await self._state.knows_decisions()):
                await self._configuration.complete_locked()
            before = self._state.view.connectable
            if await self._state.apply_decisions():
                await self._upstreams.close_changed(before, self._state.view.connectable)
                self._events.publish(ConfigurationReloaded(len(self.settings.servers)))

    async def forget(self, servers: Iterable[str] | None = None) -> int:
        """Delete the tools of servers (all if None); returns how many there were.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If they cannot be deleted from the registry.
        """
        await anyio.to_thread.run_sync(first_answer.forget, os.fspath(self._data))
        if servers is None:
            return await self._state.forget(None)
        return await self._state.forget(
            {self._state.view.addresses.server(name) for name in servers}
        )

    async def run_maintenance(self) -> NoReturn:
        """Run the background tasks of a long-running host: due listings, changes, reloads."""
        await run_maintenance(self, self._lister, self._store, self._token_logins, data=self._data)

    async def observations(self) -> list[Observation]:
        """The states of the servers used by this process, for other processes."""
        return [_observation(one, self.view) for one in await self.health() if one.stats]

    def _open_upstreams(self, on_stderr: OnStderr) -> AbstractAsyncContextManager[Upstreams]:
        if self._replay is not None:
            return _open_replayed(self._replay)
        # Importing the SDK takes longer than everything else, and most runs need no upstream.
        from discovery_engine.runtime.question_policy import QuestionPolicy  # noqa: PLC0415
        from discovery_engine.upstream.history import Policy  # noqa: PLC0415
        from discovery_engine.upstream.upstreams import open_upstreams  # noqa: PLC0415

        return open_upstreams(
            max_connecting=self.settings.server.max_connecting,
            idle_timeout=self.settings.server.idle_timeout,
            events=self._events,
            eras=self._store,
            environ=self._environ,
            secrets=self._secrets,
            admit=self._state.trust_store.admit,
            on_stderr=on_stderr,
            policy=Policy(own_sessions=self.settings.server.max_own_sessions),
            questions_of=QuestionPolicy(lambda: self._state.view.settings).of_server,
            logins=self._token_logins,
        )

    async def _note_missing_login(self, server: ServerSettings, error: NeedsAuthError) -> None:
        """Show in lists, also of other processes, what a request has shown of a login."""
        failure = self._state.view.catalog.part(server.name).failure
        is_known = failure is not None and failure.code == error.code
        if error.kind is FailureKind.AUTH and not is_known:
            result = ListingResult(server, error, self._clock())
            if await self._state.apply_listing(result):
                self._on_applied(result)

    def _on_applied(self, result: ListingResult) -> None:
        """Publish the outcome of a listing that was applied."""
        self._events.publish(result.event)


def _observation(server: ServerReport, view: View) -> Observation:
    return Observation(
        server.name,
        server.state,
        view.catalog.part(server.name).connection,
        reason=server.reason,
        stderr=server.stderr,
        since=server.since,
        next_try=server.next_try,
        detail=server.detail,
    )


# Recording and replaying are imported where they are used: usual runs do neither.


def _recorder(folder: str | Path | None) -> Recorder | None:
    if folder is None:
        return None
    from discovery_engine.runtime.recorder import Recorder  # noqa: PLC0415 - as above

    return Recorder(Path(folder))


def _replayed_secrets(secrets: SecretResolver) -> SecretResolver:
    from discovery_engine.runtime.replayed_upstreams import ReplayedSecrets  # noqa: PLC0415

    return ReplayedSecrets(secrets)


@asynccontextmanager
async def _open_replayed(folder: str | Path) -> AsyncIterator[Upstreams]:
    from discovery_engine.runtime.replayed_upstreams import ReplayedUpstreams  # noqa: PLC0415

    yield cast("Upstreams", ReplayedUpstreams(Path(folder)))
