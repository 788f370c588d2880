"""The refresh queue in memory; `registry.refresh_queue` has its contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.fleet.refresh_job import NameMark
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step
from discovery_engine.registry.webhook_rows import NoEvents

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.tools.model import ServerName


class MemoryQueue(RefreshSteps):
    """The part of `MemoryRegistry` that holds the jobs; a simulation gives it a virtual `clock`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._turn = threading.RLock()
        self._jobs: dict[str, dict[str, RefreshJob]] = {}
        self._fences = count(1)
        self._named_until: dict[tuple[str, str], float] = {}
        """By scope and server."""

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        with self._turn:
            jobs = self._jobs.get(scope, {})
            return tuple(jobs[name] for name in sorted(jobs))

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        with self._turn:
            now, jobs = self._clock(), self._jobs.get(scope, {})
            due = schedule.next_jobs(self._included(scope, excluded), limit, now)
            claimed = [
                schedule.claimed(job, holder, lease, now, least_fence=next(self._fences))
                for job in due
            ]
            jobs.update((job.server, job) for job in claimed)
            if lost := [job for job in claimed if job.state == "dead"]:
                self._events_of(scope).note_lost(lost)
            return schedule.claimed_in_order(claimed)

    def refresh_time(self) -> float:
        return self._clock()

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        overdue = self._clock() - grace
        return frozenset(
            job.server
            for job in self.refresh_jobs(scope)
            if job.claimable_at is not None and job.due_at > overdue
        )

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        return schedule.seconds_until_next(self._included(scope, excluded), self._clock())

    def _included(self, scope: str, excluded: Collection[str]) -> list[RefreshJob]:
        return [job for job in self.refresh_jobs(scope) if job.server not in excluded]

    def _plan(self, scope: str, targets: Sequence[RefreshTarget]) -> None:
        with self._turn:
            now, jobs = self._clock(), self._jobs.setdefault(scope, {})
            for one in targets:
                if one.server not in jobs:
                    self._named_until[scope, one.server] = now + schedule.NAMED_FOR
                jobs[one.server] = schedule.planned(jobs.get(one.server), scope, one, now)

    def _name_marks(self, scope: str) -> list[NameMark]:
        with self._turn:
            now, until = self._clock(), self._named_until
            return [
                NameMark(job.server, until[scope, name] - now)
                for name, job in self._jobs.get(scope, {}).items()
            ]

    def _mark(self, scope: str, servers: Sequence[ServerName], *, seconds: float) -> None:
        with self._turn:
            until = self._clock() + seconds
            self._named_until |= {(scope, name): until for name in servers}

    def _drop_unnamed(self, scope: str, servers: Sequence[ServerName]) -> list[ServerName]:
        with self._turn:
            now, jobs = self._clock(), self._jobs.get(scope, {})
            gone = [name for name in servers if self._is_unnamed(jobs.get(name), now)]
            for name in gone:
                del jobs[name]
            self._drop_servers(scope, gone)
            return gone

    def _is_unnamed(self, job: RefreshJob | None, now: float) -> bool:
        if job is None or (job.lease_until or 0.0) > now:
            return False
        return self._named_until[job.scope, job.server] <= now

    def _drop_servers(self, scope: str, servers: Collection[ServerName]) -> None:
        """Drop what servers listed; a queue by itself has nothing of them."""

    def _is_held(self, claim: RefreshClaim) -> bool:
        job = self._jobs.get(claim.scope, {}).get(claim.server)
        return job is not None and job.is_held_by(claim)

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        with self._turn:
            now = self._clock()
            changed = []
            for scope, servers in chosen.items():
                jobs = self._jobs.get(scope, {})
                for name in servers:
                    if (job := jobs.get(name)) and (new := step(job, now)) is not job:
                        jobs[name] = new
                        changed.append(new)
                        if schedule.health_change(job, new):
                            self._events_of(scope).note_jobs([(job, new)])
            return changed

    def _events_of(self, scope: str) -> NoEvents:  # noqa: ARG002 - of no scope
        """What stores events for webhooks; a queue by itself has none."""
        return NoEvents()
