"""The engine without `async`: each verb waits for that of the engine on the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from discovery_engine.call_log.call_log import CallLog
from discovery_engine.call_log.log_entry import EVERYTHING, LogEntry, LogFilter
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.engine import open_engine as open_async_engine
from discovery_engine.engine.server_offerings import ServerOfferings
from discovery_engine.installer.installer import Installer
from discovery_engine.installer.plan import InstalledChange, InstallPlan, UpdatePlan
from discovery_engine.marketplace.marketplace import Marketplace
from discovery_engine.owner.agent_requests import AgentRequests
from discovery_engine.owner.approvals import Approvals
from discovery_engine.owner.catalog_lock import CatalogLock
from discovery_engine.owner.configuration_changes import ConfigurationChanges
from discovery_engine.owner.configured_webhooks import Webhooks
from discovery_engine.owner.enrichment import Enrichment
from discovery_engine.owner.eval_cases import EvalCases
from discovery_engine.owner.fleet import Fleet
from discovery_engine.owner.owned_servers import OwnedServers
from discovery_engine.owner.presets import Presets
from discovery_engine.owner.reviews import Reviews
from discovery_engine.owner.server_logins import USUAL_TIMEOUT, ServerLogins
from discovery_engine.registry.gateway_store import GatewayStore
from discovery_engine.registry.protocols import RegistryHealth
from discovery_engine.sync.blocking_call import LOOP, Progress, run_blocking, verb
from discovery_engine.sync.blocking_toolset import AnyClient, SyncToolset

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.toolset import ToolsetMode
    from discovery_engine.config.settings import Settings
    from discovery_engine.events import Event, Subscription
    from discovery_engine.owner.enrichment import EnrichmentPlan
    from discovery_engine.owner.enrichment_run import EnrichedTool, EnrichmentReport
    from discovery_engine.owner.server_logins import LoginReport
    from discovery_engine.runtime.executor import OnUnchecked
    from discovery_engine.runtime.question_policy import OwnerRoots
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.tools.client_names import Style
    from discovery_engine.view.scope import Scope
    from discovery_engine.view.view import View


@contextmanager
def open_engine(
    config: str | Path | Settings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    secrets: SecretResolver | None = None,
    data_dir: str | Path | None = None,
    frozen: bool = False,
    record: str | Path | None = None,
    replay: str | Path | None = None,
) -> Iterator[SyncEngine]:
    """As `discovery_engine.open_engine`, for `with`."""
    with LOOP as portal:
        opened = open_async_engine(
            config,
            environ=environ,
            secrets=secrets,
            data_dir=data_dir,
            frozen=frozen,
            record=record,
            replay=replay,
        )
        with portal.wrap_async_context_manager(opened) as engine:
            yield SyncEngine(engine, portal)


class _OnLoop:
    """Stands for something on the loop."""

    def __init__(self, wrapped: Any, portal: BlockingPortal) -> None:
        self.wrapped = wrapped
        self.portal = portal


class SyncOfferings(_OnLoop):
    """As `ServerOfferings`."""

    list = verb(ServerOfferings.list)
    read_resource = verb(ServerOfferings.read_resource)
    get_prompt = verb(ServerOfferings.get_prompt)
    complete = verb(ServerOfferings.complete)
    watch_resource = verb(ServerOfferings.watch_resource)


class SyncServers(_OnLoop):
    """As `OwnedServers`."""

    list = verb(OwnedServers.list)
    get = verb(OwnedServers.get)
    export = verb(OwnedServers.export)
    read_pasted = verb(OwnedServers.read_pasted)
    plan_add = verb(OwnedServers.plan_add)
    require_free = verb(OwnedServers.require_free)
    plan_update = verb(OwnedServers.plan_update)
    plan_change = verb(OwnedServers.plan_change)
    missing = verb(OwnedServers.missing)
    plan_values = verb(OwnedServers.plan_values)
    plan_remove = verb(OwnedServers.plan_remove)
    plan_switch = verb(OwnedServers.plan_switch)
    plan_sync = verb(OwnedServers.plan_sync)
    sync = verb(OwnedServers.sync)
    apply = verb(OwnedServers.apply)
    add = verb(OwnedServers.add)
    remove = verb(OwnedServers.remove)
    enable = verb(OwnedServers.enable)
    disable = verb(OwnedServers.disable)


class SyncMarketplace(_OnLoop):
    """As `Marketplace`."""

    search = verb(Marketplace.search)
    lookup = verb(Marketplace.lookup)
    show = verb(Marketplace.show)
    sync = verb(Marketplace.sync)
    sources = verb(Marketplace.sources)


class SyncInstaller(_OnLoop):
    """As `Installer`."""

    plan_install = verb(Installer.plan_install)
    preview = verb(Installer.preview)
    asked = verb(Installer.asked)
    plan_updates = verb(Installer.plan_updates)
    plan_update = verb(Installer.plan_update)
    rollback = verb(Installer.rollback)
    uninstall = verb(Installer.uninstall)
    remove = verb(Installer.remove)
    secrets_of = verb(Installer.secrets_of)
    installed = verb(Installer.installed)
    find = verb(Installer.find)

    def install(
        self,
        plan: InstallPlan,
        *,
        on_progress: Callable[[str], None] | None = None,
    ) -> InstalledChange:
        """As `Installer.install`; `on_progress` is called in this thread."""
        given: Any = {"on_progress": on_progress} if on_progress else {}
        done: InstalledChange = run_blocking(self.portal, self.wrapped.install, plan, **given)
        return done

    def update(
        self, plan: UpdatePlan, *, on_progress: Callable[[str], None] | None = None
    ) -> InstalledChange:
        """As `Installer.update`; `on_progress` is called in this thread."""
        given: Any = {"on_progress": on_progress} if on_progress else {}
        done: InstalledChange = run_blocking(self.portal, self.wrapped.update, plan, **given)
        return done


class SyncRequests(_OnLoop):
    """As `AgentRequests`."""

    list = verb(AgentRequests.list)
    get = verb(AgentRequests.get)
    submit = verb(AgentRequests.submit)
    plan = verb(AgentRequests.plan)
    accept = verb(AgentRequests.accept)
    decline = verb(AgentRequests.decline)


class SyncFleet(_OnLoop):
    """As `Fleet`."""

    status = verb(Fleet.status)
    retry = verb(Fleet.retry)
    refresh = verb(Fleet.refresh)


class SyncWebhooks(_OnLoop):
    """As `Webhooks`."""

    list = verb(Webhooks.list)
    refusal = verb(Webhooks.refusal)
    test = verb(Webhooks.test)
    retry = verb(Webhooks.retry)
    states = verb(Webhooks.states)


class SyncPresets(_OnLoop):
    """As `Presets`."""

    list = verb(Presets.list)
    save = verb(Presets.save)
    delete = verb(Presets.delete)


class SyncApprovals(_OnLoop):
    """As `Approvals`."""

    candidates = verb(Approvals.candidates)
    approve = verb(Approvals.approve)
    revoke = verb(Approvals.revoke)


class SyncReviews(_OnLoop):
    """As `Reviews`."""

    changes = verb(Reviews.changes)
    accept = verb(Reviews.accept)
    history = verb(Reviews.history)
    end_loss = verb(Reviews.end_loss)


class SyncEnrichment(_OnLoop):
    """As `Enrichment`."""

    plan = verb(Enrichment.plan)
    written = verb(Enrichment.written)
    forget = verb(Enrichment.forget)

    def run(
        self, plan: EnrichmentPlan, on_done: Callable[[EnrichedTool], object] | None = None
    ) -> EnrichmentReport:
        """As `Enrichment.run`; `on_done` is called in this thread."""
        given: Any = {"on_done": on_done} if on_done else {}
        report: EnrichmentReport = run_blocking(self.portal, self.wrapped.run, plan, **given)
        return report


class SyncChanges(_OnLoop):
    """As `ConfigurationChanges`."""

    sections = verb(ConfigurationChanges.sections)
    plan = verb(ConfigurationChanges.plan)
    describe = verb(ConfigurationChanges.describe)
    compare = verb(ConfigurationChanges.compare)
    apply = verb(ConfigurationChanges.apply)


class SyncCases(_OnLoop):
    """As `EvalCases`."""

    list = verb(EvalCases.list)
    add = verb(EvalCases.add)
    remove = verb(EvalCases.remove)
    run = verb(EvalCases.run)


class SyncCatalogLock(_OnLoop):
    """As `CatalogLock`."""

    write = verb(CatalogLock.write)
    check = verb(CatalogLock.check)


class SyncCallLog(_OnLoop):
    """As `CallLog`."""

    entries = verb(CallLog.entries)
    count = verb(CallLog.count)
    export = verb(CallLog.export)
    timeline = verb(CallLog.timeline)
    recent_timeline = verb(CallLog.recent_timeline)
    clear = verb(CallLog.clear)
    flush = verb(CallLog.flush)

    def follow(
        self, chosen: LogFilter = EVERYTHING, *, after: int | None = None
    ) -> Iterator[LogEntry]:
        """As `CallLog.follow`."""
        entries = self.wrapped.follow(chosen, after=after)
        while True:
            yield run_blocking(self.portal, entries.__anext__)


class SyncLogins(_OnLoop):
    """As `ServerLogins`."""

    log_out = verb(ServerLogins.log_out)

    def log_in(
        self,
        server: str,
        show: Callable[[str], object],
        *,
        scopes: tuple[str, ...] = (),
        timeout: float = USUAL_TIMEOUT,
    ) -> LoginReport:
        """As `ServerLogins.log_in`; `show` is called in this thread."""
        log_in = partial(self.wrapped.log_in, scopes=scopes, timeout=timeout)
        report: LoginReport = run_blocking(self.portal, log_in, server, show=show)
        return report


class SyncScopedEngine(_OnLoop):
    """As `ScopedEngine`."""

    wrapped: ScopedEngine

    search = verb(ScopedEngine.search)
    list_tools = verb(ScopedEngine.list_tools)
    details = verb(ScopedEngine.details)
    preview = verb(ScopedEngine.preview)
    wait_listed = verb(ScopedEngine.wait_listed)
    wait_embedded = verb(ScopedEngine.wait_embedded)

    def execute(
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        on_progress: Progress | None = None,
        caller: AnyClient | None = None,
        max_wait: float | None = None,
        on_unchecked: OnUnchecked | None = None,
    ) -> JSONObject:
        """As `Engine.execute`; callbacks, also of a `SyncClient`, are called in this thread."""
        given: Any = {"on_progress": on_progress, "on_unchecked": on_unchecked, "caller": caller}
        call = partial(self.wrapped.execute, server, tool, arguments, max_wait=max_wait)
        return run_blocking(self.portal, call, **given)

    def within(self, scope: Scope) -> SyncScopedEngine:
        """As `ScopedEngine.within`."""
        return SyncScopedEngine(self.wrapped.within(scope), self.portal)

    def in_view(self, name: str) -> SyncScopedEngine:
        """As `ScopedEngine.in_view`."""
        return SyncScopedEngine(self.wrapped.in_view(name), self.portal)

    def visible_to(self, *principals: str) -> SyncScopedEngine:
        """As `ScopedEngine.visible_to`."""
        return SyncScopedEngine(self.wrapped.visible_to(*principals), self.portal)

    def toolset(
        self,
        *,
        view: str | None = None,
        mode: ToolsetMode = "meta",
        limit: int | None = None,
        client: AnyClient | None = None,
        name_style: Style | None = None,
    ) -> SyncToolset:
        """As `ScopedEngine.toolset`."""
        if client:
            self.portal.call(self.wrapped.expect_client, client.capabilities)
        make = partial(
            self.wrapped.toolset, view=view, mode=mode, limit=limit, name_style=name_style
        )
        return SyncToolset(self.portal.call(make), self.portal, client)

    @contextmanager
    def subscribe(self, *kinds: type[Event]) -> Iterator[Iterator[Event]]:
        """As `ScopedEngine.subscribe`: `with engine.subscribe() as events: for event in events`."""
        context = self.wrapped.subscribe(*kinds)
        subscription = self.portal.call(context.__enter__)
        try:
            yield self._events(subscription)
        finally:
            self.portal.call(context.__exit__, None, None, None)

    def _events(self, subscription: Subscription) -> Iterator[Event]:
        while True:
            yield run_blocking(self.portal, cast("Callable[[], Any]", subscription.__anext__))

    @cached_property
    def offerings(self) -> SyncOfferings:
        """As `ScopedEngine.offerings`."""
        return SyncOfferings(self.wrapped.offerings, self.portal)

    @property
    def view(self) -> View:
        """As `ScopedEngine.view`: the current snapshot."""
        return self.wrapped.view

    @property
    def settings(self) -> Settings:
        return self.wrapped.settings

    @property
    def has_listings(self) -> bool:
        """As `ScopedEngine.has_listings`."""
        return self.wrapped.has_listings

    def is_listed(self, server: str) -> bool:
        """As `ScopedEngine.is_listed`."""
        return self.wrapped.is_listed(server)

    def close_client(self, client: str) -> None:
        """As `ScopedEngine.close_client`."""
        self.portal.call(self.wrapped.close_client, client)


class SyncEngine(SyncScopedEngine):
    """As `Engine`; made by `open_engine`."""

    wrapped: Engine

    refresh = verb(Engine.refresh)
    restart = verb(Engine.restart)
    enrich = verb(Engine.enrich)
    health = verb(Engine.health)
    elsewhere = verb(Engine.elsewhere)
    reload = verb(Engine.reload)
    forget = verb(Engine.forget)
    reindex = verb(Engine.reindex)
    complete_settings = verb(Engine.complete_settings)
    apply_decisions = verb(Engine.apply_decisions)
    run_maintenance = verb(Engine.run_maintenance)
    work = verb(Engine.work)
    lead = verb(Engine.lead)
    observations = verb(Engine.observations)
    examine = verb(Engine.examine)
    metrics = verb(Engine.metrics)
    probe = verb(Engine.probe)
    reset_errors = verb(Engine.reset_errors)
    stderr = verb(Engine.stderr)
    prerequisites = verb(Engine.prerequisites)

    def roots(self) -> OwnerRoots:
        """As `Engine.roots`."""
        return self.wrapped.roots()

    @property
    def registry_file(self) -> Path:
        """As `Engine.registry_file`."""
        return self.wrapped.registry_file

    @property
    def registry_health(self) -> RegistryHealth | None:
        """As `Engine.registry_health`."""
        return self.wrapped.registry_health

    @property
    def gateway_store(self) -> GatewayStore | None:
        """As `Engine.gateway_store`."""
        return self.wrapped.gateway_store

    @cached_property
    def call_log(self) -> SyncCallLog:
        """As `Engine.call_log`."""
        return SyncCallLog(self.wrapped.call_log, self.portal)

    @cached_property
    def servers(self) -> SyncServers:
        """As `Engine.servers`."""
        return SyncServers(self.wrapped.servers, self.portal)

    @property
    def requests(self) -> SyncRequests:
        """What agents asked for."""
        return SyncRequests(self.wrapped.requests, self.portal)

    @property
    def fleet(self) -> SyncFleet:
        """As `Engine.fleet`."""
        return SyncFleet(self.wrapped.fleet, self.portal)

    @property
    def webhooks(self) -> SyncWebhooks:
        """As `Engine.webhooks`."""
        return SyncWebhooks(self.wrapped.webhooks, self.portal)

    @property
    def presets(self) -> SyncPresets:
        """As `Engine.presets`."""
        return SyncPresets(self.wrapped.presets, self.portal)

    @property
    def installer(self) -> SyncInstaller:
        """As `Engine.installer`."""
        return SyncInstaller(self.wrapped.installer, self.portal)

    @property
    def marketplace(self) -> SyncMarketplace:
        """As `Engine.marketplace`."""
        return SyncMarketplace(self.wrapped.marketplace, self.portal)

    @cached_property
    def trust(self) -> SyncApprovals:
        """As `Engine.trust`."""
        return SyncApprovals(self.wrapped.trust, self.portal)

    @cached_property
    def review(self) -> SyncReviews:
        """As `Engine.review`."""
        return SyncReviews(self.wrapped.review, self.portal)

    @cached_property
    def enrichment(self) -> SyncEnrichment:
        """As `Engine.enrichment`."""
        return SyncEnrichment(self.wrapped.enrichment, self.portal)

    @cached_property
    def changes(self) -> SyncChanges:
        """As `Engine.changes`."""
        return SyncChanges(self.wrapped.changes, self.portal)

    @cached_property
    def cases(self) -> SyncCases:
        """As `Engine.cases`."""
        return SyncCases(self.wrapped.cases, self.portal)

    @cached_property
    def lock(self) -> SyncCatalogLock:
        """As `Engine.lock`."""
        return SyncCatalogLock(self.wrapped.lock, self.portal)

    @property
    def secrets(self) -> OwnerSecrets:
        """As `Engine.secrets`, whose verbs wait for no loop."""
        return self.wrapped.secrets

    @cached_property
    def logins(self) -> SyncLogins:
        """As `Engine.logins`."""
        return SyncLogins(self.wrapped.logins, self.portal)


def sync_toolset_of(
    source: SyncScopedEngine | SyncToolset, *, name_style: Style | None = None
) -> SyncToolset:
    """A toolset as it is, or one of an engine in the mode `select`: what adapters are made of."""
    if isinstance(source, SyncToolset):
        return source
    return source.toolset(mode="select", name_style=name_style)
