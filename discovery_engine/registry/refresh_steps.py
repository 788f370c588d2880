"""The verbs of the refresh queue that are a step with some jobs, the same for every back-end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from discovery_engine.fleet import schedule

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.fleet.refresh_job import (
        NameMark,
        RefreshClaim,
        RefreshJob,
        RefreshTarget,
    )
    from discovery_engine.tools.model import ServerName

Step: TypeAlias = Callable[["RefreshJob", float], "RefreshJob"]
"""A step of a job at a time; it returns the same object if nothing changes."""
Chosen: TypeAlias = Mapping[str, Collection[str]]
"""Servers by scope."""
T = TypeVar("T")

_PART = 1000  # jobs in one transaction: 100,000 took 10 s, and one operation may take 5
_MARKS = 10_000  # marks in one transaction, which is one statement


class RefreshSteps:
    """The verbs that every back-end has from here; `registry.refresh_queue` has the contract."""

    @abstractmethod
    def refresh_time(self) -> float: ...

    @abstractmethod
    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]: ...

    @abstractmethod
    def _plan(self, scope: str, targets: Sequence[RefreshTarget]) -> None:
        """Make the jobs of servers as `schedule.planned` says, in one transaction."""

    @abstractmethod
    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        """Take a step with jobs, in one transaction; returns those that are different by it."""

    @abstractmethod
    def _name_marks(self, scope: str) -> list[NameMark]:
        """The marks of a scope, but for those that no process has anything to do about."""

    @abstractmethod
    def _mark(self, scope: str, servers: Sequence[ServerName], *, seconds: float) -> None:
        """Let jobs count as named for so long from now."""

    @abstractmethod
    def _drop_unnamed(self, scope: str, servers: Sequence[ServerName]) -> list[ServerName]:
        """Drop jobs of which the mark has ended, and no claim is live, with their listings."""

    def name_servers(self, scope: str, servers: Iterable[str]) -> tuple[ServerName, ...]:
        changes = schedule.mark_changes(self._name_marks(scope), frozenset(servers))
        for some in _parts(changes.named, _MARKS):
            self._mark(scope, some, seconds=schedule.NAMED_FOR)
        for some in _parts(changes.adopted, _MARKS):
            self._mark(scope, some, seconds=schedule.ADOPTED_FOR)
        dropped = (
            name for some in _parts(changes.ended) for name in self._drop_unnamed(scope, some)
        )
        return tuple(sorted(dropped))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        now = self.refresh_time()
        jobs: dict[str, RefreshJob] = {job.server: job for job in self.refresh_jobs(scope)}

        def is_planned(target: RefreshTarget) -> bool:
            job = jobs.get(target.server)
            return schedule.planned(job, scope, target, now) is job

        different = [target for target in targets if not is_planned(target)]
        for part in _parts(different):
            self._plan(scope, part)
        return len(different)

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        def extend(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.extended(job, lease, now)

        return frozenset(job.claim for job in self._take_held(claims, extend))

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
        return self._take_steps(scope, servers, schedule.retried)

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        def hasten(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.hastened(job, priority, now)

        return self._take_steps(scope, servers, hasten)

    def _take_steps(
        self, scope: str, servers: Collection[str] | None, step: Step
    ) -> tuple[ServerName, ...]:
        """Take a step with any number of jobs, all with None; returns those it changes."""
        if servers is None or len(servers) > _PART:
            now, names = self.refresh_time(), servers and frozenset(servers)
            jobs = self.refresh_jobs(scope)
            changing = (job.server for job in jobs if step(job, now) is not job)
            servers = [name for name in changing if names is None or name in names]
        parts = _parts([*servers])
        changed = (job for part in parts for job in self._take_step({scope: part}, step))
        return tuple(sorted(job.server for job in changed))

    def _take_held(self, claims: Iterable[RefreshClaim], step: Step) -> list[RefreshJob]:
        """Take a step with the jobs whose claims are valid; returns these after it."""
        chosen, step_if_held = _of_claims(claims, step)
        return self._take_step(chosen, step_if_held) if chosen else []


def success(claim: RefreshClaim, part: ServerPart, due_in: float) -> tuple[Chosen, Step]:
    """The job of a claim, and its step if the claim is valid: it was listed, and this is saved."""

    def succeed(job: RefreshJob, now: float) -> RefreshJob:
        return schedule.succeeded(job, len(part.entries), due_in, now)

    return _of_claims([claim], succeed)


def _of_claims(claims: Iterable[RefreshClaim], step: Step) -> tuple[Chosen, Step]:
    """The jobs of claims, and a step of those that are valid."""
    held = frozenset(claims)
    chosen: dict[str, list[str]] = {}
    for claim in held:
        chosen.setdefault(claim.scope, []).append(claim.server)

    def step_if_held(job: RefreshJob, now: float) -> RefreshJob:
        return step(job, now) if job.state == "processing" and job.claim in held else job

    return chosen, step_if_held


def _parts(items: Sequence[T], size: int = _PART) -> Iterator[Sequence[T]]:
    """Split items into one part per transaction, so that work progresses however long it takes."""
    return (items[start : start + size] for start in range(0, len(items), size))
