"""The engine as the program uses it that opened it: with the verbs of its owner."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import anyio.to_thread

from discovery_engine.engine.core import EngineCore
from discovery_engine.engine.scoped_engine import ScopedEngine
from discovery_engine.runtime import first_answer
from discovery_engine.runtime.current_view import CurrentView
from discovery_engine.runtime.health import health
from discovery_engine.runtime.maintenance import run_maintenance
from discovery_engine.view.status import Observation, ServerReport

if TYPE_CHECKING:
    from discovery_engine.owner.approvals import Approvals
    from discovery_engine.owner.catalog_lock import CatalogLock
    from discovery_engine.owner.enrichment import Enrichment
    from discovery_engine.owner.enrichment_run import EnrichmentReport
    from discovery_engine.owner.reviews import Reviews
    from discovery_engine.owner.server_logins import ServerLogins
    from discovery_engine.runtime.refresh_report import RefreshReport
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View


class Engine(ScopedEngine):
    """Made by `open_engine`. It is the scope that shows everything."""

    def __init__(self, core: EngineCore) -> None:
        super().__init__(core, CurrentView(lambda: core.state.view, core.with_live))
        self._environment = core.environment

    # The verbs of the owner are imported on first use: agents never need them.

    @cached_property
    def trust(self) -> Approvals:
        """Which servers may be started: `candidates`, `approve`, `revoke`."""
        from discovery_engine.owner.approvals import Approvals  # noqa: PLC0415

        return Approvals(
            self,
            self._core.state.trust_store,
            self._core.events,
            secrets=self._environment.secrets,
            environ=self._environment.variables,
            clock=self._environment.clock,
        )

    @cached_property
    def review(self) -> Reviews:
        """Which definitions of tools are accepted: `changes`, `accept`, `history`, `end_loss`."""
        from discovery_engine.owner.reviews import Reviews  # noqa: PLC0415

        return Reviews(self, self._core.state.trust_store, self._core.events)

    @cached_property
    def enrichment(self) -> Enrichment:
        """Typical requests, written by a language model: `plan`, `run`, `written`, `forget`."""
        from discovery_engine.owner.enrichment import Enrichment  # noqa: PLC0415

        return Enrichment(
            self,
            self._core.store,
            self._apply_requests,
            secrets=self._environment.secrets,
            clock=self._environment.clock,
        )

    async def enrich(
        self, servers: Collection[str] = (), *, tools: Collection[str] = (), again: bool = False
    ) -> EnrichmentReport:
        """Have typical requests written for the tools that have none, and find tools by them.

        It sends what `enrichment.plan` shows to the endpoint of `enrich` in the configuration.

        Args:
            servers: Only their tools; those of all servers if none is named.
            tools: Only these.
            again: Also tools that have typical requests already.

        Raises:
            NotFoundError: If a server or a tool is not known.
            ConfigurationError: If no endpoint is configured, or its key has no value.
        """
        plan = await self.enrichment.plan(servers, tools=tools, again=again)
        return await self.enrichment.run(plan)

    @cached_property
    def lock(self) -> CatalogLock:
        """The catalog pinned in a file beside the configuration: `write`, `check`."""
        from discovery_engine.owner.catalog_lock import CatalogLock  # noqa: PLC0415

        return CatalogLock(self, self._core.events)

    @cached_property
    def secrets(self) -> OwnerSecrets:
        """The values of `${secret:NAME}`: `set`, `get`, `delete`, `names`, `rotate_key`."""
        from discovery_engine.secret_store.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.secret_store.owner_secrets import OwnerSecrets  # noqa: PLC0415

        return OwnerSecrets(EncryptedStore(self._environment.data, self._environment.variables))

    @cached_property
    def logins(self) -> ServerLogins:
        """Logins of remote servers: `log_in`, `log_out`."""
        from discovery_engine.owner.server_logins import ServerLogins  # noqa: PLC0415

        return ServerLogins(
            self,
            self._environment.token_logins.store,
            secrets=self._environment.secrets,
            admit=self._core.state.trust_store.admit,
            clock=self._environment.clock,
        )

    async def health(
        self, observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({})
    ) -> tuple[ServerReport, ...]:
        """A report of every configured server, in the order of names.

        Args:
            observed: What `gateways.observations` read of running gateways; the worst counts.
        """
        states = self._core.upstreams.states()
        return health(self.view, states, now=self._environment.clock(), observed=observed)

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
        return await self._core.lister.refresh(servers, only_due=only_due, max_wait=max_wait)

    async def complete_settings(self) -> None:
        """Read the files of the configuration, if what is remembered of them was enough so far.

        Until then `settings` has no transports. It is done before a server is started or reached.
        """
        await self._core.configuration.complete()

    async def reload(self) -> None:
        """Read the configuration again; servers with the same transport keep their sessions.

        Raises:
            ConfigurationError: If it is invalid; the last valid one then stays in force.
        """
        await self._core.configuration.reload()

    async def apply_decisions(self) -> None:
        """Apply what the owner decided, and had written for tools, meanwhile; no-op if nothing.

        Raises:
            ConfigurationError: If a lock file that is needed cannot be used any more.
        """
        await self._core.configuration.apply_decisions()

    async def _apply_requests(self) -> None:
        await self._core.state.apply_requests()
        await self._core.state.save_index()

    async def forget(self, servers: Iterable[str] | None = None) -> int:
        """Delete the tools of servers (all if None); returns how many there were.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If they cannot be deleted from the registry.
        """
        await anyio.to_thread.run_sync(first_answer.forget, os.fspath(self._environment.data))
        addresses = self._current.snapshot.addresses
        names = None if servers is None else {addresses.server(name) for name in servers}
        return await self._core.state.forget(names)

    async def run_maintenance(self) -> NoReturn:
        """Run the background tasks of a long-running host: due listings, changes, reloads."""
        await run_maintenance(
            self,
            self._core.lister,
            self._core.store,
            self._environment.token_logins,
            data=self._environment.data,
        )

    async def observations(self) -> list[Observation]:
        """The states of the servers used by this process, for other processes."""
        return [_observation(one, self.view) for one in await self.health() if one.stats]


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
