"""The components of an open engine, shared with its scoped engines, and the view of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio.to_thread
from anyio.abc import TaskGroup
from cachetools import LRUCache
from msgspec import Struct

from discovery_engine.config.files.location import decision_scope
from discovery_engine.search.usage import RecentFinds
from discovery_engine.view.notices import RegistryOutage
from discovery_engine.view.scope import Scope, ScopedViews, ShownView
from discovery_engine.view.searcher_source import SearcherSource

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.call_record import CallRecorder
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.configuration_loader import ConfigurationLoader
    from discovery_engine.engine.executor import ToolExecutor
    from discovery_engine.engine.health import ServerProber
    from discovery_engine.engine.lister import ServerLister
    from discovery_engine.engine.reranking import Reranking
    from discovery_engine.engine.result_store import ResultStore
    from discovery_engine.engine.semantic_search import SemanticSearch
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.engine.webhook_dispatcher import WebhookDispatcher
    from discovery_engine.events import EventBus
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.upstream.http.logins import Logins
    from discovery_engine.view.view import View


# Sets of teams and users. Each may need an index, though most share one with other sets.
_MAX_CACHED_VIEWS = 32


class Environment(Struct, frozen=True, dict=True):
    """Settings that an engine receives from the process that opens it."""

    variables: Mapping[str, str]
    secrets: SecretResolver
    clock: Callable[[], float]
    """Unix time in seconds."""
    data: Path
    """The folder with the registry, logins and long results."""
    scope: str = ""
    """The key of the configuration in stored data."""
    actor: Actor = "program"
    """The actor of calls that name none."""
    record: Path | None = None
    """The folder to write exchanges with servers to."""
    replay: Path | None = None
    """The folder of recorded exchanges to answer from."""
    is_worker: bool = False
    """True if listings are stored only with a claim from the refresh queue."""

    @property
    def hands_out_tasks(self) -> bool:
        """True if clients may get tasks instead of results: a task cannot be replayed."""
        return self.record is None and self.replay is None

    @cached_property
    def token_logins(self) -> Logins:
        """The stored logins of this user, shared by all processes."""
        # Most runs need no login, and the encryption takes as long to import as the engine.
        from discovery_engine.secrets.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.upstream.http.logins import Logins  # noqa: PLC0415

        return Logins(EncryptedStore(self.data, self.variables), clock=self.clock)


class EngineCore(Struct, frozen=True):
    """The components of an engine; `bootstrap.open_engine` opens and closes them."""

    environment: Environment
    store: Registry
    events: EventBus
    state: CatalogState
    configuration: ConfigurationLoader
    semantic: SemanticSearch
    reranking: Reranking
    upstreams: Upstreams
    lister: ServerLister
    executor: ToolExecutor
    uses: UseCounter
    results: ResultStore
    prober: ServerProber
    call_log: CallLog
    recorder: CallRecorder
    webhooks: WebhookDispatcher
    at_end: ExitStack
    """Closes resources that were opened on first use when the engine closes."""

    @property
    def decision_scope(self) -> str:
        """The scope under which the owner's decisions are stored."""
        return decision_scope(self.state.view.settings)


class CurrentView:
    """The current view of an engine or of a scope.

    Each access may return a newer view; keep a reference for several consistent reads.
    """

    def __init__(self, core: EngineCore, open_view: Callable[[], View] | None = None) -> None:
        """`open_view` returns the view of a scope; None for the view of the whole engine."""
        self._core = core
        self._shown = open_view
        self._scoped: WeakSet[ScopedViews] = WeakSet()
        self._visible: LRUCache[frozenset[str], CurrentView] = LRUCache(_MAX_CACHED_VIEWS)
        self._scopes: LRUCache[frozenset[str], tuple[Settings, Scope]]
        self._scopes = LRUCache(_MAX_CACHED_VIEWS)

    @property
    def snapshot(self) -> View:
        """The current view, without the states of servers."""
        return self._shown() if self._shown else self._core.state.view

    @property
    def live(self) -> View:
        """The current view with the states of the servers, the configuration and the registry."""
        core, health = self._core, self._core.store.health
        outage = RegistryOutage.of(health) if health else None
        return self.snapshot.with_live(core.lister.live(), core.configuration.rejection, outage)

    def within(self, scope: Callable[[Settings], Scope]) -> CurrentView:
        """Return this view restricted to a scope, which `scope` makes from the current settings."""
        shown = ShownView(scope, lambda: self.snapshot, self._scoped)
        return CurrentView(self._core, shown.view)

    def visible_to(self, principals: frozenset[str]) -> CurrentView:
        """Return this view restricted to these teams and users; recent ones are cached."""
        if principals not in self._visible:
            self._visible[principals] = self.within(partial(self._scope_of, principals))
        return self._visible[principals]

    def _scope_of(self, principals: frozenset[str], settings: Settings) -> Scope:
        """Return the scope of these teams and users; cached, as making one takes 12 ms.

        That was measured with 500 servers and rules that reserve some. The key of the cache has
        only the principals that the settings mention.
        """
        relevant = principals & settings.principals
        made_for, scope = self._scopes.get(relevant, (None, Scope()))
        if made_for is not settings:
            scope = Scope.of_principals(settings, relevant)
            self._scopes[relevant] = settings, scope
        return scope

    @property
    def searched(self) -> View:
        """The view whose index searches use: the whole one of which the snapshot shows a part."""
        snapshot = self.snapshot
        return snapshot.whole or snapshot

    async def prepare_search(self) -> None:
        """Build the searcher of the current snapshot in a thread; a no-op if it exists."""
        # Repeated because a listing may arrive meanwhile; after three rounds little is left to do.
        for _ in range(3):
            source = self.snapshot.open_searcher
            if not isinstance(source, SearcherSource) or source.is_ready:
                return
            await anyio.to_thread.run_sync(source)


class UseCounter:
    """Counts the uses of tools that searches found, for ranking.

    It writes in `tasks`, so that no call waits for it; `clock` returns Unix time in seconds.
    """

    def __init__(self, state: CatalogState, tasks: TaskGroup, clock: Callable[[], float]) -> None:
        self._state = state
        self._tasks = tasks
        self._clock = clock
        self._finds = RecentFinds()

    def record_found(self, keys: Iterable[ToolKey]) -> None:
        """Record that a search found these tools."""
        if self._state.view.settings.search.learn:
            self._finds.add(keys, self._clock())

    def record_call(self, entry: Entry) -> None:
        """Record a successful call; it counts if a recent search found the tool."""
        learns = self._state.view.settings.search.learn
        if learns and self._finds.consume(entry.key, self._clock()):
            self._tasks.start_soon(self._state.count_use, entry.key)
