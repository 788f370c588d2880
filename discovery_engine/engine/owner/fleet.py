"""Status and control of the refresh queue: `engine.fleet`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from discovery_engine.config.files.location import catalog_key_of, decision_scope
from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.store.schedule import REQUESTED

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.store.gateway_records import GatewayReport
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import ServerName

JOB_STATES = ("pending", "processing", "enabled", "error", "dead", "disabled")
_ATTENTION = {"dead": 0, "error": 1, "processing": 2}


class FleetStatus(Struct, frozen=True):
    """A snapshot of the refresh queue."""

    jobs: tuple[RefreshJob, ...]
    """The jobs of the configured servers, ordered by name.

    Empty if no worker has run yet.
    """
    embedding_count: int
    """The number of vectors stored for tools and requests of this configuration."""
    now: float
    """Unix time in seconds by the clock of the registry, as are the times of the jobs."""
    newest_decision: int = 0
    """The number of the newest decision of any owner."""
    gateways: tuple[GatewayReport, ...] = ()
    """The gateways that run, of a registry that machines share."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of jobs by state; every state of `JOB_STATES` is included."""
        tally = Counter(job.state for job in self.jobs)
        return {state: tally[state] for state in JOB_STATES}  # type: ignore[index]

    @property
    def oldest_due(self) -> RefreshJob | None:
        """Return the job that has waited longest for a worker; None if none is due."""
        due = [job for job in self.jobs if _waits_since(job) <= self.now]
        return min(due, key=_waits_since, default=None)

    @property
    def due_count(self) -> int:
        """Return the number of jobs that wait for a worker."""
        return sum(_waits_since(job) <= self.now for job in self.jobs)

    @property
    def seconds_overdue(self) -> float:
        """Return the seconds for which `oldest_due` has waited; 0 if none is due."""
        oldest = self.oldest_due
        return self.now - _waits_since(oldest) if oldest else 0.0

    @property
    def gateways_behind(self) -> int:
        """Return the number of gateways on which a decision is not in force yet."""
        return sum(gateway.decided < self.newest_decision for gateway in self.gateways)

    def ordered(self, states: Collection[str] = JOB_STATES) -> list[RefreshJob]:
        """Return the jobs in some states: dead, failing and processed ones first, then by name."""
        return sorted((job for job in self.jobs if job.state in states), key=attention)

    def recent_activity(self, limit: int = 10) -> list[RefreshJob]:
        """Return the jobs last claimed, listed or found failing, the latest first."""
        active = [job for job in self.jobs if _last_active(job)]
        return sorted(active, key=_last_active, reverse=True)[:limit]

    def recent_registrations(self, limit: int = 10) -> list[RefreshJob]:
        """Return the jobs that were created last, the latest first."""
        return sorted(self.jobs, key=lambda job: job.created_at, reverse=True)[:limit]


def read_status(store: Registry, settings: Settings) -> FleetStatus:
    """Read the queue of a configuration.

    Raises:
        RegistryError: If it cannot be read.
    """
    scope, named = catalog_key_of(settings), settings.by_name
    # Other jobs belong to removed servers, or to a configuration not read by this process yet.
    own = tuple(job for job in store.refresh_jobs(scope) if job.server in named)
    return FleetStatus(
        own,
        store.vector_count(scope),
        store.refresh_time(),
        store.newest_decision(),
        store.gateways.reports(decision_scope(settings)) if store.gateways else (),
    )


class Fleet:
    """Reads and steers the refresh queue; available as `engine.fleet`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.store

    async def status(self) -> FleetStatus:
        """Read the queue.

        Raises:
            RegistryError: If the queue cannot be read.
        """
        settings = self._engine.view.settings
        return await anyio.to_thread.run_sync(read_status, self._store, settings)

    async def retry(self, servers: Iterable[str] | None = None) -> tuple[ServerName, ...]:
        """Make failed and dead servers due now, and reset their count of attempts.

        Args:
            servers: The names of the servers; None for all.

        Returns:
            The servers that are retried; the others had not failed.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If the queue cannot be written.
        """
        work = partial(self._store.retry_refreshes, self._scope, self._names(servers))
        return await anyio.to_thread.run_sync(work)

    async def refresh(self, servers: Iterable[str] | None = None) -> tuple[ServerName, ...]:
        """Make servers due now and before all others, even if they were listed recently.

        Args:
            servers: The names of the servers; None for all.

        Returns:
            The servers that workers will list. Dead and disabled servers are left out, and servers
            that no worker has enqueued yet.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            RegistryError: If the queue cannot be written.
        """
        hasten = partial(self._store.hasten_refreshes, priority=REQUESTED)
        work = partial(hasten, self._scope, self._names(servers))
        return await anyio.to_thread.run_sync(work)

    @property
    def _scope(self) -> str:
        return catalog_key_of(self._engine.view.settings)

    def _names(self, servers: Iterable[str] | None) -> frozenset[str]:
        view = self._engine.view
        if servers is None:
            return frozenset(view.settings.by_name)
        return frozenset(view.server_settings(name).name for name in servers)


def attention(job: RefreshJob) -> tuple[int, ServerName]:
    """Return the key by which the jobs that people look for come first."""
    return _ATTENTION.get(job.state, len(_ATTENTION)), job.server


def _waits_since(job: RefreshJob) -> float:
    """Return the Unix time from which a worker may claim the job; infinity if none may."""
    at = job.claimable_at
    return float("inf") if at is None else at


def _last_active(job: RefreshJob) -> float:
    return max(job.claimed_at or 0.0, job.listed_at or 0.0, job.failing_since or 0.0)
