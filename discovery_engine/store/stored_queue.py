"""The refresh queue of a registry; `store.refresh_job` describes its contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from discovery_engine.errors import RegistryError
from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.store.saved_listings import SavedListings
from discovery_engine.store.statements import reads
from discovery_engine.store.stored_records import StoredRecords
from discovery_engine.store.tables import refresh_table, snapshot_table

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.store.refresh_job import ClaimedPart, RefreshClaim, RefreshTarget
    from discovery_engine.store.statements import Connection
    from discovery_engine.tools.model import ServerName

T = TypeVar("T")

Step: TypeAlias = Callable[[RefreshJob, float], RefreshJob]
"""Returns a job after a step at a Unix time in seconds; the same object if nothing changes."""
Chosen: TypeAlias = Mapping[str, Collection[str]]
"""Servers by scope."""

_PART = 1000  # jobs in one transaction: 100,000 took 10 s, and an operation has 5 s
_MARKS = 10_000  # marks in one transaction, which is one statement


class StoredQueue(StoredRecords):
    """The part of a registry from which workers take servers to list."""

    def __init__(self) -> None:
        self._listings = SavedListings()

    @reads
    def refresh_time(self, db: Connection) -> float:
        """Return the time in seconds of the clock that all times of jobs refer to."""
        return db.now()

    @reads
    def refresh_jobs(self, db: Connection, scope: str) -> tuple[RefreshJob, ...]:
        """Return all jobs of a scope, sorted by server."""
        return tuple(refresh_table.load(db, scope))

    @reads
    def tended_servers(self, db: Connection, scope: str, *, grace: float) -> frozenset[ServerName]:
        """Return the servers that workers list in time: overdue by at most `grace` seconds."""
        return refresh_table.tended(db, scope, grace)

    @reads
    def seconds_until_refresh(
        self, db: Connection, scope: str, *, excluded: Collection[str] = ()
    ) -> float | None:
        """Return the seconds until a job can be claimed, 0 for now; None if there is no such job.

        Jobs of servers that are `excluded` do not count.
        """
        return refresh_table.seconds_until_next(db, scope, excluded)

    def name_servers(self, scope: str, servers: Iterable[str]) -> tuple[ServerName, ...]:
        """Record that a process has these servers in its configuration; to be repeated each hour.

        Jobs that no process has named for `schedule.NAMED_FOR` are deleted with the saved parts of
        their servers, unless a worker holds them. A job of an older version of the program, which
        names no servers, is deleted `schedule.ADOPTED_FOR` after the first call that sees it. If
        all servers were named within the last half an hour, nothing is written.

        Returns:
            The servers whose jobs were deleted, sorted by name.
        """

        def drop(db: Connection, names: Sequence[ServerName]) -> list[ServerName]:
            gone = refresh_table.drop_unnamed(db, scope, names)
            self._events(db, scope).note_servers((), snapshot_table.drop(db, scope, gone))
            return gone

        marks = self.read(partial(refresh_table.name_marks, scope=scope))
        changes = schedule.mark_changes(marks, frozenset(servers))
        mark = partial(refresh_table.mark, scope=scope)
        for some in _parts(changes.named, _MARKS):
            self.write(partial(mark, servers=some, seconds=schedule.NAMED_FOR))
        for some in _parts(changes.adopted, _MARKS):
            self.write(partial(mark, servers=some, seconds=schedule.ADOPTED_FOR))
        dropped = [self.write(partial(drop, names=some)) for some in _parts(changes.ended)]
        return tuple(sorted(name for names in dropped for name in names))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        """Create or update the jobs of these servers; all other jobs stay.

        A new job is due at once, and so is that of a server whose connection has changed. A job
        whose target has a reason is disabled until it has none. Large numbers take several
        transactions.

        Returns:
            The number of jobs that were created or changed.
        """
        now = self.refresh_time()
        jobs: dict[str, RefreshJob] = {job.server: job for job in self.refresh_jobs(scope)}

        def is_planned(target: RefreshTarget) -> bool:
            job = jobs.get(target.server)
            return schedule.planned(job, scope, target, now) is job

        different = [target for target in targets if not is_planned(target)]
        for part in _parts(different):
            self.write(partial(refresh_table.plan, scope=scope, targets=part))
        return len(different)

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        """Claim up to `limit` jobs for `lease` seconds, an hour at most.

        No two workers hold the same job. Due jobs and those with an expired lease can be claimed,
        by priority, then by waiting time, except those of servers that are `excluded`. Each claim
        raises the fencing token (`fence`) of its job. A job that has repeatedly lost its worker is
        marked as dead, and not returned.
        """

        def claim(db: Connection) -> list[RefreshJob]:
            jobs = refresh_table.claim(db, scope, holder, limit, lease, excluded)
            if lost := [job for job in jobs if job.state == "dead"]:
                self._events(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self.write(claim))

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        """Extend claims to `lease` seconds from now, as a heartbeat; return the valid ones."""

        def extend(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.extended(job, lease, now)

        return frozenset(job.claim for job in self._step_held(claims, extend))

    def fail_refresh(
        self, claim: RefreshClaim, code: str, message: str, *, retry_in: float | None
    ) -> bool:
        """Record a failure; the job is due again in `retry_in` seconds, or dead if that is None.

        Return False, and write nothing, if the claim has ended.
        """

        def fail(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.failed(job, code, message, retry_in, now)

        jobs = self._step_held([claim], fail)
        for job in jobs:
            with suppress(RegistryError):  # the next attempt records it
                self.write(partial(self._note_failure, job=job))
        return bool(jobs)

    def _note_failure(self, db: Connection, job: RefreshJob) -> None:
        # This is a transaction after that of the step: another worker may have listed it since.
        if refresh_table.is_unclaimed(db, job) and snapshot_table.note_failure(db, job):
            self._announce(db)

    def return_claims(self, claims: Iterable[RefreshClaim]) -> int:
        """Return jobs to the queue as if they had not been claimed; return how many were held."""
        return len(self._step_held(claims, lambda job, _: schedule.given_back(job)))

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        """End the claims of listings that are saved already, in one transaction; return them.

        All other claims are left to `save_claimed`: their listings may differ from the saved ones,
        they may have ended, or another process may be writing their jobs.
        """
        marked = [
            (entry, self._listings.mark_of(entry.claim.scope, entry.part)) for entry in listed
        ]
        pairs = [(entry, mark) for entry, mark in marked if mark]
        if not pairs:
            return frozenset()
        return self.write(partial(refresh_table.end_unchanged, listed=pairs))

    def retry_refreshes(
        self, scope: str, servers: Collection[str] | None = None
    ) -> tuple[ServerName, ...]:
        """Make failed and dead jobs due now, with no attempt counted; of all servers if None.

        Large numbers take several transactions, here and in `hasten_refreshes`.

        Returns:
            The servers whose jobs changed, sorted by name.
        """
        return self._take_steps(scope, servers, schedule.retried)

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        """Make jobs due now, even if their servers were just listed; of all servers if None.

        A job that is being processed is due again when it ends. Dead and disabled jobs stay so.

        Returns:
            The servers whose jobs changed, sorted by name.
        """

        def hasten(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.hastened(job, priority, now)

        return self._take_steps(scope, servers, hasten)

    def _take_steps(
        self, scope: str, servers: Collection[str] | None, step: Step
    ) -> tuple[ServerName, ...]:
        """Take a step with the jobs of servers, of all if None; return the servers that changed."""
        if servers is None or len(servers) > _PART:
            now, names = self.refresh_time(), servers and frozenset(servers)
            jobs = self.refresh_jobs(scope)
            changing = (job.server for job in jobs if step(job, now) is not job)
            servers = [name for name in changing if names is None or name in names]
        changed = [
            self.write(partial(self._take_step, chosen={scope: part}, step=step))
            for part in _parts([*servers])
        ]
        return tuple(sorted(job.server for jobs in changed for job in jobs))

    def _succeed(
        self, db: Connection, claim: RefreshClaim, part: ServerPart, due_in: float
    ) -> bool:
        """Record that a listing is saved, and end its claim; return whether the claim was valid."""

        def succeed(job: RefreshJob, now: float) -> RefreshJob:
            return schedule.succeeded(job, len(part.entries), due_in, now)

        return bool(self._take_held(db, [claim], succeed))

    def _step_held(self, claims: Iterable[RefreshClaim], step: Step) -> list[RefreshJob]:
        held = frozenset(claims)
        return self.write(partial(self._take_held, held=held, step=step)) if held else []

    def _take_held(
        self, db: Connection, held: Collection[RefreshClaim], step: Step
    ) -> list[RefreshJob]:
        """Take a step with the jobs whose claims are valid; return the changed jobs."""
        chosen: dict[str, list[str]] = {}
        for claim in held:
            chosen.setdefault(claim.scope, []).append(claim.server)

        def step_if_held(job: RefreshJob, now: float) -> RefreshJob:
            return step(job, now) if job.state == "processing" and job.claim in held else job

        return self._take_step(db, chosen, step_if_held)

    def _take_step(self, db: Connection, chosen: Chosen, step: Step) -> list[RefreshJob]:
        """Take a step with jobs; return the changed ones."""
        changed = []
        for scope, servers in chosen.items():
            steps = refresh_table.step(db, scope, servers, step)
            if turned := [pair for pair in steps if schedule.health_change(*pair)]:
                self._events(db, scope).note_jobs(turned)
            changed += [job for _, job in steps]
        return changed


def _parts(items: Sequence[T], size: int = _PART) -> Iterator[Sequence[T]]:
    """Split items into one part per transaction, so that work progresses however long it takes."""
    return (items[start : start + size] for start in range(0, len(items), size))
