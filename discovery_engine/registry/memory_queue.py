"""The refresh queue in memory; `registry.protocols` has its contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
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

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        with self._turn:
            jobs = self._jobs.get(scope, {})
            return tuple(jobs[name] for name in sorted(jobs))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        with self._turn:
            now, known = self._clock(), self._jobs.get(scope, {})
            planned: dict[str, RefreshJob] = {
                one.server: schedule.planned(known.get(one.server), scope, one, now)
                for one in targets
            }
            self._jobs[scope] = planned
            different = [name for name in planned if planned[name] is not known.get(name)]
            return len(different) + len(known.keys() - planned.keys())

    def claim_refreshes(
        self, scope: str, holder: str, *, limit: int, lease: float
    ) -> tuple[RefreshJob, ...]:
        with self._turn:
            now, jobs = self._clock(), self._jobs.get(scope, {})
            due = schedule.next_jobs(jobs.values(), limit, now)
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

    def seconds_until_refresh(self, scope: str) -> float | None:
        return schedule.seconds_until_next(self.refresh_jobs(scope), self._clock())

    def _is_held(self, claim: RefreshClaim) -> bool:
        job = self._jobs.get(claim.scope, {}).get(claim.server)
        return job is not None and job.is_held_by(claim)

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        with self._turn:
            now = self._clock()
            changed = []
            for scope, servers in chosen.items():
                jobs = self._jobs.get(scope, {})
                for name in tuple(jobs) if servers is None else servers:
                    if (job := jobs.get(name)) and (new := step(job, now)) is not job:
                        jobs[name] = new
                        changed.append(new)
                        if schedule.health_change(job, new):
                            self._events_of(scope).note_jobs([(job, new)])
            return changed

    def _events_of(self, scope: str) -> NoEvents:  # noqa: ARG002 - of no scope
        """What stores events for webhooks; a queue by itself has none."""
        return NoEvents()
