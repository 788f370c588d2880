"""The verbs of the refresh queue that are one step with some jobs, the same for every back-end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.fleet import schedule

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob
    from discovery_engine.tools.model import ServerName

Step: TypeAlias = Callable[["RefreshJob", float], "RefreshJob"]
"""What becomes of a job at a time; the same object if nothing does."""
Chosen: TypeAlias = Mapping[str, "Collection[str] | None"]
"""Servers by scope; all of it with None."""


class RefreshSteps:
    """What a back-end has from here; `registry.protocols` has the contract."""

    @abstractmethod
    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        """Take a step with jobs, in one transaction; returns those that are different by it."""

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        def extend(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.extended(job, lease, now)

        return frozenset(job.claim for job in self._take_held(claims, extend))

    def finish_refresh(self, claim: RefreshClaim, *, tool_count: int, due_in: float) -> bool:
        def finish(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.succeeded(job, tool_count, due_in, now)

        return bool(self._take_held([claim], finish))

    def fail_refresh(
        self, claim: RefreshClaim, code: str, message: str, *, retry_in: float | None
    ) -> bool:
        def fail(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.failed(job, code, message, retry_in, now)

        return bool(self._take_held([claim], fail))

    def return_claims(self, claims: Iterable[RefreshClaim]) -> int:
        return len(self._take_held(claims, lambda job, _: schedule.given_back(job)))

    def retry_refreshes(
        self, scope: str, servers: Collection[str] | None = None
    ) -> tuple[ServerName, ...]:
        return _servers(self._take_step({scope: servers}, schedule.retried))

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        def hasten(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.hastened(job, priority, now)

        return _servers(self._take_step({scope: servers}, hasten))

    def _take_held(self, claims: Iterable[RefreshClaim], step: Step) -> list[RefreshJob]:
        """Take a step with the jobs whose claims are valid; returns these after it."""
        held = frozenset(claims)
        chosen: dict[str, list[str]] = {}
        for claim in held:
            chosen.setdefault(claim.scope, []).append(claim.server)

        def step_if_held(job: RefreshJob, now: float) -> RefreshJob:
            return step(job, now) if job.state == "processing" and job.claim in held else job

        return self._take_step(chosen, step_if_held) if held else []


def _servers(jobs: Iterable[RefreshJob]) -> tuple[ServerName, ...]:
    return tuple(sorted(job.server for job in jobs))
