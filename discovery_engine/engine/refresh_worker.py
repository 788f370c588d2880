"""A worker: claims servers from the refresh queue, lists them, and saves what they list.

    claim ── list ── accept ── save                  each write while the claim is valid
      └── heartbeats, several within a lease

Several servers at once, each in a task of its own. A claim that is lost ends its task; what it
still tries to write is refused by the registry.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.engine.ingestion.server_parts import failure_of, ttl_of
from discovery_engine.engine.maintenance import follow_files
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    RegistryError,
    UpstreamError,
)
from discovery_engine.events import ToolsChanged
from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.lister import ClaimedListing
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

T = TypeVar("T")

_HEARTBEATS = 4  # within one lease
_LOOK_EVERY = 5.0  # seconds between two looks at the queue, the decisions and the configuration
_PLAN_EVERY = 3600.0  # seconds after which jobs are compared with the configuration in any case
_SHORTEST_SLEEP = 0.05
_DRAIN = 60.0  # seconds for webhooks, before a worker with `is_once` ends

Outcome: TypeAlias = Literal[
    "claimed", "changed", "unchanged", "failed", "dead", "lost", "returned"
]


class WorkerOptions(Struct, frozen=True):
    slots: int = 8
    """Servers that are listed at once."""
    lease: float = schedule.LEASE
    """Seconds without a heartbeat until another worker takes over a server; at most an hour."""
    interval: float = schedule.INTERVAL
    """Seconds to the next listing, unless the server wants it sooner; at most 30 days."""
    is_once: bool = False
    """End when nothing is due any more."""


class WorkerReport(Struct, frozen=True):
    """A claim, or what became of it."""

    server: ServerName
    outcome: Outcome
    fence: int
    seconds: float
    """From the claim to the result."""
    tools: int | None = None
    due_in: float | None = None
    """Seconds until the next listing, or the next attempt; None if there is none."""
    code: str = ""
    message: str = ""


Reporter: TypeAlias = Callable[[WorkerReport], None]


class RefreshWorker:
    """Lists servers that are due, with claims on their jobs; `clock` is monotonic."""

    def __init__(
        self,
        engine: EngineCore,
        options: WorkerOptions,
        report: Reporter,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._options = options
        self._report = report
        self._clock = clock
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._held: dict[RefreshClaim, anyio.CancelScope] = {}
        self._announced: set[ServerName] = set()
        """Servers that announced a change since they were listed last."""
        self._unknown: frozenset[ServerName] = frozenset()
        """Servers that only other workers know, as far as was seen since the last plan."""
        self._wake = anyio.Event()
        self._is_out = False
        self._looked_at = self._planned_at = 0.0
        self._planned: tuple[object, object] = None, None
        """The settings that the jobs were made from, and the servers that must not be started."""

    async def run(self) -> None:
        """Work until nothing is due with `is_once`, else for ever; then give the claims back.

        Raises:
            RegistryError: If the queue cannot be used; without `is_once` that is waited out.
        """
        await self._engine.configuration.complete()
        try:
            async with open_task_group() as tasks:
                tasks.start_soon(self._follow_announcements)
                tasks.start_soon(
                    follow_files,
                    lambda: self._view.settings.inputs,
                    self._engine.configuration.reload,
                )
                tasks.start_soon(self._beat)
                if not self._options.is_once:
                    tasks.start_soon(self._engine.webhooks.run)
                await self._work_off(tasks)
                await self._engine.webhooks.drain(_DRAIN)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_back()

    async def _work_off(self, tasks: TaskGroup) -> None:
        while True:
            self._wake = anyio.Event()
            try:
                await self._look_again()
                if await self._claim(tasks):
                    continue
                pause = await self._pause()
            except RegistryError as error:
                if self._options.is_once:
                    raise
                self._note_outage(error)
                pause = _LOOK_EVERY
            if self._options.is_once and not self._held and pause != 0:
                return
            longest = _LOOK_EVERY if pause is None else min(pause, _LOOK_EVERY)
            with anyio.move_on_after(max(longest, _SHORTEST_SLEEP)):
                await self._wake.wait()

    async def _claim(self, tasks: TaskGroup) -> bool:
        """Claim as many servers as there are free slots; returns whether there were any."""
        free = self._options.slots - len(self._held)
        if free <= 0:
            await self._wake.wait()
            return True
        jobs = await self._in_thread(
            lambda store: store.claim_refreshes(
                self._scope,
                self.holder,
                limit=free,
                lease=self._options.lease,
                excluded=self._unknown,
            )
        )
        self._is_out = False
        for job in jobs:
            self._held[job.claim] = scope = anyio.CancelScope()
            self._report(WorkerReport(job.server, "claimed", job.fence, 0.0))
            tasks.start_soon(self._process, job, scope)
        return bool(jobs)

    async def _pause(self) -> float | None:
        """Seconds until a job can be claimed; None if none ever can."""
        return await self._in_thread(
            lambda store: store.seconds_until_refresh(self._scope, excluded=self._unknown)
        )

    async def _process(self, job: RefreshJob, scope: anyio.CancelScope) -> None:
        claim, began = job.claim, self._clock()
        with scope:
            report = await self._refreshed(job, began)
        if scope.cancelled_caught:  # by a heartbeat
            report = WorkerReport(job.server, "lost", job.fence, self._clock() - began)
        self._held.pop(claim, None)
        self._report(report)
        self._wake.set()

    async def _refreshed(self, job: RefreshJob, began: float) -> WorkerReport:
        try:
            report = await self._applied(job, began)
        except UpstreamError as error:
            failure = failure_of(error, 0.0)
            return await self._failed(job, failure.code, failure.message, began)
        except RegistryError as error:
            # A registry that takes this failure is there: what it did not take is this listing.
            return await self._failed(job, error.code, error.message, began)
        return report or await self._returned(job, began)

    async def _applied(self, job: RefreshJob, began: float) -> WorkerReport | None:
        """None if the server must not be listed any more, or not be reached in that way."""
        listed = await self._listed(job)
        if listed is None:
            return None
        interval = schedule.interval_after(ttl_of(listed.listing), self._options.interval)
        due_in = schedule.spread(interval, random.random)
        saved = await self._engine.lister.apply_claimed(listed, job.claim, due_in=due_in)
        if saved is None:
            return None
        seconds = self._clock() - began
        if saved == "lost":
            return WorkerReport(job.server, "lost", job.fence, seconds)
        outcome: Outcome = "changed" if saved == "saved" else "unchanged"
        tools = len(listed.listing.tools)
        return WorkerReport(job.server, outcome, job.fence, seconds, tools, due_in)

    async def _listed(self, job: RefreshJob) -> ClaimedListing | None:
        """Once more if the server announced a change meanwhile; only once, since some always do."""
        self._announced.discard(job.server)
        listed = await self._engine.lister.list_claimed(job.claim)
        if listed is None or job.server not in self._announced:
            return listed
        return await self._engine.lister.list_claimed(job.claim)

    async def _failed(self, job: RefreshJob, code: str, message: str, began: float) -> WorkerReport:
        retry_in = schedule.backoff_of(job, random.random)
        is_done = await self._settled(
            lambda store: store.fail_refresh(job.claim, code, message, retry_in=retry_in)
        )
        outcome: Outcome = "dead" if retry_in is None else "failed"
        return WorkerReport(
            job.server,
            outcome if is_done else "lost",
            job.fence,
            self._clock() - began,
            due_in=retry_in,
            code=code,
            message=message,
        )

    async def _returned(self, job: RefreshJob, began: float) -> WorkerReport:
        """Give a claim back that this worker cannot serve; its lease ends it if that fails."""
        if job.server not in self._view.connectable:
            self._unknown |= {job.server}
        await self._settled(lambda store: bool(store.return_claims([job.claim])))
        seconds, gone = self._clock() - began, "it is not configured here, or must not be started"
        return WorkerReport(job.server, "returned", job.fence, seconds, message=gone)

    async def _settled(self, settle: Callable[[Registry], bool]) -> bool:
        """Note a result; return False if the claim is lost, or the registry is out of reach.

        In that case the lease ends, and the server is listed again: one listing more, none less.
        """
        try:
            return await self._in_thread(settle)
        except RegistryError as error:
            self._note_outage(error)
            return False

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(self._options.lease / _HEARTBEATS)
            if held := tuple(self._held):
                await self._extend(held)

    async def _extend(self, held: Collection[RefreshClaim]) -> None:
        """A heartbeat; it ends the work under claims that are lost."""
        lease = self._options.lease
        try:
            valid = await self._in_thread(lambda store: store.extend_claims(held, lease=lease))
        except RegistryError as error:
            self._note_outage(error)
            return
        for claim in held:
            if claim not in valid and claim in self._held:
                self._held[claim].cancel()

    async def _look_again(self) -> None:
        """Take up what changed, now and then; nothing is to be claimed before that succeeded once.

        Raises:
            RegistryError: If the queue cannot be used, and could not until now.
        """
        is_planned = self._planned[0] is not None
        if is_planned and self._clock() - self._looked_at < _LOOK_EVERY:
            return
        try:
            await self._synchronize()
        except RegistryError as error:
            if not is_planned:
                raise
            self._note_outage(error)

    async def _synchronize(self) -> None:
        """Take up what else changed: decisions, listings of others, the servers themselves.

        Raises:
            RegistryError: If the queue cannot be used.
        """
        self._looked_at = self._clock()
        try:
            await self._engine.configuration.apply_decisions()
        except ConfigurationError as error:
            logger.warning("The configuration stays as it was:\n%s", error)
        if doubtful := (await self._engine.state.apply_shared_parts()).doubtful:
            await self._hasten(doubtful)
        basis = self._view.settings, self._engine.state.trust_store.trust.refused
        is_known = basis[0] is self._planned[0] and basis[1] == self._planned[1]
        if is_known and self._clock() - self._planned_at < _PLAN_EVERY:
            return
        # First, so that no job that it names is dropped before it is planned.
        names = self._view.settings.by_name
        await self._in_thread(lambda store: store.name_servers(self._scope, names))
        targets = await anyio.to_thread.run_sync(refresh_targets, self._view)
        await self._in_thread(lambda store: store.plan_refreshes(self._scope, targets))
        self._planned, self._planned_at = basis, self._clock()
        self._unknown = frozenset()

    async def _follow_announcements(self) -> None:
        """A worker hears a server only while it lists it: it keeps no session."""
        with self._engine.events.subscribe(ToolsChanged) as events:
            async for event in events:
                if isinstance(event, ToolsChanged):
                    self._announced.add(event.server)

    async def _hasten(self, servers: Collection[ServerName]) -> None:
        await self._in_thread(
            lambda store: store.hasten_refreshes(self._scope, servers, priority=schedule.DOUBTFUL)
        )

    async def _give_back(self) -> None:
        held = tuple(self._held)
        if held and await self._settled(lambda store: bool(store.return_claims(held))):
            for claim in held:
                self._report(WorkerReport(claim.server, "returned", claim.fence, 0.0))

    def _note_outage(self, error: RegistryError) -> None:
        if not self._is_out:
            logger.warning("The queue cannot be used, and is tried again: %s", error)
        self._is_out = True

    @property
    def _view(self) -> View:
        return self._engine.state.view

    @property
    def _scope(self) -> str:
        return catalog_key_of(self._view.settings)

    async def _in_thread(self, ask: Callable[[Registry], T]) -> T:
        return await anyio.to_thread.run_sync(ask, self._engine.store)


def refresh_targets(view: View) -> list[RefreshTarget]:
    """The servers of a configuration as targets; those that must not be listed with the reason."""
    targets = []
    for server in view.settings.servers:
        if server.name in view.connectable:
            targets.append(RefreshTarget(server.name, connection_fingerprint(server)))
            continue
        try:
            view.require_connectable(server.name)
        except DiscoveryError as error:
            targets.append(RefreshTarget(server.name, reason=error.message, code=error.code))
    return targets
