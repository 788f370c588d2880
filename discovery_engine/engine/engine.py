"""The engine with all its verbs, for the program that opened it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import anyio.to_thread

from discovery_engine.engine import first_answer
from discovery_engine.engine.catalog_state import ReindexReport
from discovery_engine.engine.core import CurrentView, EngineCore
from discovery_engine.engine.gateway_reports import observations
from discovery_engine.engine.health import USUAL_WAIT, ProbeResult, health
from discovery_engine.engine.maintenance import run_maintenance
from discovery_engine.engine.restore import registry_path
from discovery_engine.engine.scoped_engine import ScopedEngine
from discovery_engine.view.status import Observation, ServerReport

if TYPE_CHECKING:
    from discovery_engine.catalog import RefreshReport
    from discovery_engine.engine.configuration_loader import OwnerRoots
    from discovery_engine.engine.owner.agent_requests import AgentRequests
    from discovery_engine.engine.owner.approvals import Approvals
    from discovery_engine.engine.owner.catalog_lock import CatalogLock
    from discovery_engine.engine.owner.configuration_changes import ConfigurationChanges
    from discovery_engine.engine.owner.configured_webhooks import Webhooks
    from discovery_engine.engine.owner.fleet import Fleet
    from discovery_engine.engine.owner.owned_servers import OwnedServers
    from discovery_engine.engine.owner.presets import Presets
    from discovery_engine.engine.owner.reviews import Reviews
    from discovery_engine.engine.owner.search_examination import SearchExamination
    from discovery_engine.engine.owner.server_logins import ServerLogins
    from discovery_engine.engine.refresh_worker import Reporter, WorkerOptions
    from discovery_engine.evaluation.calibration import Calibrator
    from discovery_engine.evaluation.enrichment.enrichment import Enrichment
    from discovery_engine.evaluation.enrichment.enrichment_run import EnrichmentReport
    from discovery_engine.evaluation.eval_cases import EvalCases
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.installer.installer import Installer
    from discovery_engine.marketplace.marketplace import CurrentMarketplace, Marketplace
    from discovery_engine.marketplace.package_managers.manager_command import Prerequisite
    from discovery_engine.secrets.owner_secrets import OwnerSecrets
    from discovery_engine.store.availability import RegistryHealth
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.store.call_log.tally import ServerMetrics
    from discovery_engine.store.postgres_gateways import PostgresGateways
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View


class Engine(ScopedEngine):
    """An engine that shows everything, with the verbs of its owner; `open_engine` makes it."""

    def __init__(self, core: EngineCore) -> None:
        super().__init__(core, CurrentView(core))

    # The verbs of the owner are imported on first use: agents never need them.

    @cached_property
    def servers(self) -> OwnedServers:
        """The servers of file and registry: `list`, `add`, `remove`, `enable`, `disable`."""
        from discovery_engine.engine.owner.owned_servers import OwnedServers  # noqa: PLC0415

        return OwnedServers(self, self._core)

    @cached_property
    def trust(self) -> Approvals:
        """The approvals to start servers: `candidates`, `approve`, `revoke`."""
        from discovery_engine.engine.owner.approvals import Approvals  # noqa: PLC0415

        return Approvals(self, self._core)

    @cached_property
    def review(self) -> Reviews:
        """The acceptance of definitions of tools: `changes`, `accept`, `history`, `end_loss`."""
        from discovery_engine.engine.owner.reviews import Reviews  # noqa: PLC0415

        return Reviews(self, self._core)

    @cached_property
    def enrichment(self) -> Enrichment:
        """The typical requests that a language model writes: `plan`, `run`, `written`, `forget`."""
        from discovery_engine.evaluation.enrichment.enrichment import Enrichment  # noqa: PLC0415

        return Enrichment(self, self._core)

    async def enrich(
        self, servers: Collection[str] = (), *, tools: Collection[str] = (), again: bool = False
    ) -> EnrichmentReport:
        """Have typical requests written for the tools that have none, and find tools by them.

        The texts that `enrichment.plan` shows are sent to the endpoint of `enrich`.

        Args:
            servers: The servers whose tools to enrich; empty for all.
            tools: The names of the tools; empty for all.
            again: True to include tools that have typical requests already.

        Raises:
            NotFoundError: If a server or a tool is not known.
            ConfigurationError: If no endpoint is configured, or its key has no value.
        """
        plan = await self.enrichment.plan(servers, tools=tools, again=again)
        return await self.enrichment.run(plan)

    @cached_property
    def lock(self) -> CatalogLock:
        """The catalog pinned in a file beside the configuration: `write`, `check`."""
        from discovery_engine.engine.owner.catalog_lock import CatalogLock  # noqa: PLC0415

        return CatalogLock(self, self._core)

    @cached_property
    def changes(self) -> ConfigurationChanges:
        """The rules, overrides and synonyms: `sections`, `plan`, `compare`, `apply`."""
        from discovery_engine.engine.owner.configuration_changes import (  # noqa: PLC0415
            ConfigurationChanges,
        )

        return ConfigurationChanges(self, self._core)

    @cached_property
    def cases(self) -> EvalCases:
        """The queries with their right tools: `list`, `add`, `remove`, `run`."""
        from discovery_engine.evaluation.eval_cases import EvalCases  # noqa: PLC0415

        return EvalCases(self)

    @cached_property
    def calibration(self) -> Calibrator:
        """The confidence of answers, fitted to this catalog: `fit`, `reset`."""
        from discovery_engine.evaluation.calibration import Calibrator  # noqa: PLC0415

        return Calibrator(self, self._core)

    async def examine(
        self,
        query: str,
        *,
        view: str | None = None,
        principal: str | None = None,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> SearchExamination:
        """Return what an agent finds, and what is hidden from it that it would find, with reasons.

        Args:
            query: The query; see `search`.
            view: The view of the agent; None for none.
            principal: The team or user of the agent, as `team:NAME`; None for the owner.
            server: The only server to search; None for all.
            tags: Tags that each hit must have, all of them.
            limit: The most hits; the configured `search.limit` if None.

        Raises:
            InputTooLongError, ServerNotFoundError, ViewNotFoundError: See `search` and `in_view`.
            PrincipalError: If `principal` is neither a team nor a user.
        """
        from discovery_engine.engine.owner.search_examination import (  # noqa: PLC0415
            SearchExamination,
            hidden_hits,
        )

        agent: ScopedEngine = self if principal is None else self.visible_to(principal)
        agent = agent if view is None else agent.in_view(view)
        answer = await agent.search(query, server=server, tags=tags, limit=limit)
        embedding = await self._core.semantic.embed_query(query)
        agent_view = agent.view
        hidden = hidden_hits(
            self.view,
            query,
            view=view,
            principal=principal,
            server=server,
            tags=tags,
            limit=agent_view.settings.search.limit if limit is None else limit,
            vectors=embedding.vectors,
        )
        return SearchExamination(answer, agent_view, hidden)

    @cached_property
    def secrets(self) -> OwnerSecrets:
        """The values of `${secret:NAME}`: `set`, `get`, `delete`, `names`, `rotate_key`."""
        from discovery_engine.secrets.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.secrets.owner_secrets import OwnerSecrets  # noqa: PLC0415

        environment = self._core.environment
        return OwnerSecrets(EncryptedStore(environment.data, environment.variables))

    @cached_property
    def requests(self) -> AgentRequests:
        """The requests of agents: `list`, `accept`, `decline`, `submit`."""
        from discovery_engine.engine.owner.agent_requests import AgentRequests  # noqa: PLC0415

        return AgentRequests(self, self._core)

    @cached_property
    def fleet(self) -> Fleet:
        """The refresh queue of workers: `status`, `retry`, `refresh`."""
        from discovery_engine.engine.owner.fleet import Fleet  # noqa: PLC0415

        return Fleet(self, self._core)

    @cached_property
    def webhooks(self) -> Webhooks:
        """The addresses that events of servers are sent to: `list`, `test`, `retry`, `states`."""
        from discovery_engine.engine.owner.configured_webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self, self._core)

    @cached_property
    def presets(self) -> Presets:
        """The arguments of tools that are saved under names: `list`, `save`, `delete`."""
        from discovery_engine.engine.owner.presets import Presets  # noqa: PLC0415

        return Presets(self, self._core)

    @property
    def marketplace(self) -> Marketplace:
        """The servers that others publish: `search`, `show`, `sync`, `sources`."""
        return self._marketplaces.current(self.settings)

    @cached_property
    def _marketplaces(self) -> CurrentMarketplace:
        from discovery_engine.marketplace.marketplace import (  # noqa: PLC0415
            CurrentMarketplace,
        )

        marketplace = CurrentMarketplace(self._core.environment)
        self._core.at_end.callback(marketplace.close)
        return marketplace

    @cached_property
    def installer(self) -> Installer:
        """The installer of servers: `plan_install`, `install`, `plan_updates`, `update`, ..."""
        from discovery_engine.marketplace.installer.installer import Installer  # noqa: PLC0415

        async def find(name: str, version: str) -> EntryDetails:
            return await self.marketplace.show(name, version=version)

        return Installer(self, self._core, find)

    @cached_property
    def logins(self) -> ServerLogins:
        """The logins of remote servers: `log_in`, `log_out`."""
        from discovery_engine.engine.owner.server_logins import ServerLogins  # noqa: PLC0415

        return ServerLogins(self, self._core)

    @property
    def registry_health(self) -> RegistryHealth | None:
        """The health of a shared registry, with what waits for it; None if it is a file."""
        return self._core.store.health

    @property
    def gateway_store(self) -> PostgresGateways | None:
        """The data that gateways of a shared registry have in common; None if it is a file."""
        return self._core.store.gateways

    @property
    def call_log(self) -> CallLog:
        """The log of calls, reads, questions and writes: `entries`, `follow`, `export`, `clear`."""
        return self._core.call_log

    async def metrics(self, server: str | None = None) -> tuple[ServerMetrics, ...]:
        """Return the number, duration and failures of calls by server and tool, in all processes.

        Args:
            server: The only server to include; None for all that were called.

        Raises:
            CallLogError: If the call log cannot be read.
        """
        return await self._core.call_log.metrics(server)

    async def reset_errors(self, server: str | None = None) -> None:
        """Reset the count of errors of a server, or of all servers if None.

        Raises:
            CallLogError: If the call log cannot be written.
        """
        await self._core.call_log.reset_errors(server)

    async def health(
        self, observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({})
    ) -> tuple[ServerReport, ...]:
        """Return a report of every configured server, sorted by name.

        Args:
            observed: The observations of other gateways, see `elsewhere`; the worst one counts.
        """
        return await self.servers.with_packages(self._reports(observed))

    def _reports(
        self, observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({})
    ) -> tuple[ServerReport, ...]:
        states = self._core.upstreams.states()
        return health(self.view, states, now=self._core.environment.clock(), observed=observed)

    async def elsewhere(self) -> Mapping[ServerName, Sequence[Observation]]:
        """Return the observations of other running gateways by server, the worst first."""
        environment, own = self._core.environment, os.getpid()
        all_observations = await anyio.to_thread.run_sync(
            observations, environment.data, environment.scope
        )
        return {
            name: others
            for name, seen in all_observations.items()
            if (others := [observation for observation in seen if observation.gateway != own])
        }

    async def probe(
        self, servers: Iterable[str] | None = None, *, max_wait: float = USUAL_WAIT
    ) -> tuple[ProbeResult, ...]:
        """Return whether servers answer now, and how fast; all are asked concurrently.

        A server that answers has its errors reset (`reset_errors`).

        Args:
            servers: The names of the servers; every enabled and approved one if None.
            max_wait: Seconds to wait for each server, which continues to start.

        Raises:
            ServerNotFoundError, ServerDisabledError, UntrustedServerError, ConfigurationError:
                If a named server cannot be reached.
        """
        return await self._core.prober.probe(servers, max_wait=max_wait)

    async def stderr(self, server: str) -> tuple[str, ...]:
        """Return the last lines that a server wrote to stderr, redacted.

        They are from this process, or if there are none, from before its last failure.

        Raises:
            ServerNotFoundError: If the server is not configured.
        """
        named = self.view.server(server).name
        report = next(candidate for candidate in await self.health() if candidate.name == named)
        return tuple(((report.stats and report.stats.stderr) or report.stderr).splitlines())

    async def prerequisites(self) -> tuple[Prerequisite, ...]:
        """Return the programs that start packages, each with its version or its problem."""
        from discovery_engine.marketplace.package_managers.manager_command import (  # noqa: PLC0415
            Prerequisites,
        )
        from discovery_engine.marketplace.package_names import PACKAGE_KINDS  # noqa: PLC0415

        programs = [program for kind in PACKAGE_KINDS.values() for program in kind.programs]
        return await Prerequisites(self._core.environment.variables).probe(programs)

    def roots(self) -> OwnerRoots:
        """Return the folders that answer `roots/list` of servers in place of their clients."""
        from discovery_engine.engine.configuration_loader import owner_roots  # noqa: PLC0415

        return owner_roots(self.settings)

    @property
    def registry_file(self) -> Path:
        """The path of the registry; the file may not exist."""
        return registry_path(self._core.environment.data, self._core.environment.variables)

    async def refresh(
        self,
        servers: Iterable[str] | None = None,
        *,
        only_due: bool = False,
        max_wait: float | None = None,
    ) -> RefreshReport:
        """List the tools of servers, concurrently; a failing one does not delay the others.

        Args:
            servers: The names of the servers; every enabled one if None.
            only_due: True to skip servers whose last listing is still fresh.
            max_wait: Seconds to wait for each server. One that has not answered by then continues
                to start, and is in the report; the `timeouts` of the server apply if None.

        Raises:
            ServerNotFoundError, ServerDisabledError, UntrustedServerError, ConfigurationError:
                If a named server cannot be listed.
        """
        return await self._core.lister.refresh(servers, only_due=only_due, max_wait=max_wait)

    async def restart(self, server: str) -> RefreshReport:
        """End the sessions of a server after their current calls, and list its tools again.

        Its process ends with the session, and another one is started at once.

        Raises:
            ServerNotFoundError, ServerDisabledError, UntrustedServerError, ConfigurationError:
                If it cannot be started.
        """
        named = self._current.snapshot.require_connectable(server).name
        await self._core.upstreams.close(named)
        return await self._core.lister.refresh([named])

    async def complete_settings(self) -> None:
        """Read the configuration files, unless they were read since the engine opened.

        Until then `settings` may lack transports. Starting a server reads them, too.
        """
        await self._core.configuration.complete()

    async def reload(self) -> None:
        """Read the configuration again; servers with the same transport keep their sessions.

        Raises:
            ConfigurationError: If it is invalid; the last valid one stays in force.
        """
        await self._core.configuration.reload()

    async def apply_decisions(self) -> None:
        """Apply decisions, typical requests and listings that other processes have stored.

        Raises:
            ConfigurationError: If a lock file that is needed cannot be used any more.
        """
        await self._core.configuration.apply_decisions()
        await self._core.configuration.complete()
        shared = await self._core.state.apply_shared_parts()
        for part in shared.adopted:
            if not part.failure:
                self._core.upstreams.note_answer(part.server)
        if shared.doubtful:  # goes on in the background
            await self._core.lister.refresh(shared.doubtful, max_wait=0.0)

    async def forget(self, servers: Iterable[str] | None = None) -> int:
        """Delete the tools of servers, or of all servers if None; return their number.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If they cannot be deleted from the registry.
        """
        await anyio.to_thread.run_sync(first_answer.forget, os.fspath(self._core.environment.data))
        addresses = self._current.snapshot.addresses
        names = None if servers is None else {addresses.server(name) for name in servers}
        return await self._core.state.forget(names)

    async def reindex(self) -> ReindexReport:
        """Build the search index and the vectors of all tools again.

        A tool without a vector is found by its words. Other processes use the new vectors after
        their next start, or at once where the database compares vectors.

        Raises:
            EmbeddingError: If the embedder fails.
            RegistryError: If the database that is searched does not answer.
        """
        await self._core.state.rebuild_index()
        is_on = self.view.settings.search.embeddings.is_on
        vectors = await self._core.semantic.reembed() if is_on else None
        return ReindexReport(len(self.view.catalog), vectors)

    async def run_maintenance(self) -> NoReturn:
        """Run the background tasks of a long-running host: due listings, changes, reloads."""
        await run_maintenance(self, self._core)

    async def work(self, options: WorkerOptions, report: Reporter) -> None:
        """Claim servers from the refresh queue and list them, as one of any number of workers.

        It runs until it is cancelled, or with `is_once` until nothing is due; then its claims are
        released. The engine must be opened with `worker=True`.

        Args:
            options: The number of concurrent listings, and the duration of a claim.
            report: Called with the outcome of each claim.

        Raises:
            RegistryError: If the queue cannot be used.
        """
        from discovery_engine.engine.refresh_worker import RefreshWorker  # noqa: PLC0415 - seldom

        await RefreshWorker(self._core, options, report).run()

    def observations(self) -> list[Observation]:
        """Return the states of the servers used by this process, for other processes."""
        # Without packages: the verbs of the owner would take 25 MB of every gateway.
        return [_observation(report, self.view) for report in self._reports() if report.stats]


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
