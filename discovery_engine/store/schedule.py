"""The schedule of refresh jobs: when each is due, who is next, and every step of a job's life.

Pure functions of a job and the present time, with the source of random numbers as an argument: the
back-ends of the registry take these steps in a transaction, with the time of their own clock, and
a simulation takes the same ones with a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.retry_after import backoff
from discovery_engine.store.refresh_job import (
    WAITING,
    JobState,
    NameMark,
    RefreshJob,
    RefreshTarget,
)

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName

HealthChange: TypeAlias = Literal["failing", "recovered"]

INTERVAL = 24 * 3600.0  # seconds from a success to the next listing
LONGEST_INTERVAL = 30 * 24 * 3600.0
SHORTEST_INTERVAL = 60.0  # seconds
SPREAD = 0.1  # the share of an interval at its end within which a listing is due
FIRST_BACKOFF = 30.0  # seconds: the most before the second attempt
LONGEST_BACKOFF = 3600.0
LONGEST_FAILURE = 24 * 3600.0  # seconds of failing after which a server is given up
LEAST_ATTEMPTS = 8  # before it is: workers may have been gone meanwhile
MOST_LOSSES = 8
NAMED_FOR = 2.5 * 3600.0
"""Seconds for which a server counts as named after a process had it in its configuration."""
NAMED_AGAIN = 0.5 * 3600.0
"""Seconds after which it is named again: of many processes one writes, the others find it named."""
ADOPTED_FOR = 7 * 24 * 3600.0
"""Seconds for which a job is kept that a program made which names no servers, being older."""
LEASE = 60.0  # seconds that a claim lasts without a heartbeat
LONGEST_LEASE = 3600.0
DOUBTFUL = 5
"""The priority of a server whose listing in the registry may be older than what it has."""
REQUESTED = 10
"""The priority of a server that a person wants to be listed now."""
WORKER_LOST = "WORKER_LOST"
LOST_REASON = "the worker that listed it ended without a result, in each of the last {} attempts"


def interval_after(ttl: float | None, interval: float = INTERVAL) -> float:
    """Seconds until a server is listed again that was listed now, with this time to live.

    One of 0 says nothing: servers must give one, and libraries give 0 for those that chose none.
    """
    return min(interval, max(ttl, SHORTEST_INTERVAL)) if ttl else interval


def spread(interval: float, random: Callable[[], float]) -> float:
    """A little sooner than the interval says, and never later.

    Servers that were first listed together would be due together for ever.
    """
    return max(interval * (1.0 - SPREAD * random()), min(interval, SHORTEST_INTERVAL))


def backoff_of(job: RefreshJob, random: Callable[[], float]) -> float | None:
    """Seconds until the next attempt, if that of this claim fails; None if there is to be none.

    Exponential, with full jitter: servers that fail together are not tried together. `random` gives
    numbers from 0 to 1.
    """
    if job.attempts >= LEAST_ATTEMPTS and _failing_for(job) >= LONGEST_FAILURE:
        return None
    return random() * longest_backoff(job.attempts)


def longest_backoff(attempts: int) -> float:
    """The most seconds until the next attempt, after this many failed."""
    return backoff(max(attempts, 1), FIRST_BACKOFF, LONGEST_BACKOFF)


def corrected(job: RefreshJob, now: float) -> RefreshJob:
    """Due, or its lease over, if that is further away than it can be: else the same object.

    The clock was ahead when that time was set, and has been set right since.
    """
    longest = {"processing": LONGEST_LEASE, "error": LONGEST_BACKOFF}
    at = job.claimable_at
    if at is None or at <= now + longest.get(job.state, LONGEST_INTERVAL):
        return job
    if job.state == "processing":
        return replace(job, lease_until=now)
    return replace(job, due_at=now)


def claimed_in_order(jobs: Iterable[RefreshJob]) -> tuple[RefreshJob, ...]:
    """Return the claimed jobs in the order of the queue, without those that the claim made dead."""
    claimed = (job for job in jobs if job.state == "processing")
    return tuple(sorted(claimed, key=lambda job: (-job.priority, job.due_at, job.server)))


def seconds_until_next(jobs: Iterable[RefreshJob], now: float) -> float | None:
    """Seconds until a job can be claimed, 0 if one can be now; None if none ever can."""
    times = [job.claimable_at for job in jobs if job.claimable_at is not None]
    return max(min(times) - now, 0.0) if times else None


def planned(job: RefreshJob | None, scope: str, target: RefreshTarget, now: float) -> RefreshJob:
    """The job of a server that the configuration names; the same object if nothing changes."""
    if job is None:
        job = RefreshJob(scope, target.server, now, now, connection=target.connection)
    job = corrected(job, now)
    if target.reason:
        refused = job.state, job.error_code, job.error_message
        if refused == ("disabled", target.code, target.reason):
            return job
        return replace(
            _released(job, "disabled"), error_code=target.code, error_message=target.reason
        )
    is_other = job.connection != target.connection
    if job.state != "disabled" and not is_other:
        return job
    # Another entry under the same name: what failed says nothing about it.
    renewed = replace(_forgiven(job), connection=target.connection, due_at=now)
    if job.state == "processing":
        return renewed
    return replace(_released(renewed, "pending"), error_code="", error_message="")


class MarkChanges(Struct, frozen=True):
    """The changes of jobs once a process has checked which of them it names."""

    named: list[ServerName]
    """Servers to be kept for `NAMED_FOR`."""
    adopted: list[ServerName]
    """Servers to be kept for `ADOPTED_FOR`."""
    ended: list[ServerName]
    """Servers to be dropped, unless a worker holds one, or a process has named one meanwhile."""


def mark_changes(marks: Iterable[NameMark], own: Collection[str]) -> MarkChanges:
    """Return the changes by a process that has the `own` servers in its configuration."""
    changes = MarkChanges([], [], [])
    for server, left in ((mark.server, mark.seconds_left) for mark in marks):
        # Longer than anything is kept: the clock was ahead then, and has been set right since.
        if left is None or left > ADOPTED_FOR:
            changes.adopted.append(server)
        elif server in own and left < NAMED_FOR - NAMED_AGAIN:
            changes.named.append(server)
        elif server not in own and left <= 0:
            changes.ended.append(server)
    return changes


def claimed(
    job: RefreshJob, holder: str, lease: float, now: float, *, least_fence: int = 0
) -> RefreshJob:
    """The next claim; instead of it `dead` if too many workers were lost with this server.

    `least_fence` is above the fences of all claims that a dropped job of the same server had.
    """
    losses = job.losses + (job.state == "processing")
    if losses >= MOST_LOSSES:
        reason = LOST_REASON.format(losses)
        return replace(_released(job, "dead"), error_code=WORKER_LOST, error_message=reason)
    return replace(
        job,
        state="processing",
        attempts=job.attempts + 1,
        holder=holder,
        fence=max(job.fence + 1, least_fence),
        claimed_at=now,
        lease_until=now + lease,
        losses=losses,
    )


def extended(job: RefreshJob, lease: float, now: float) -> RefreshJob:
    """Return a job after a heartbeat of its worker."""
    return replace(job, lease_until=now + lease)


def succeeded(job: RefreshJob, tool_count: int, due_in: float, now: float) -> RefreshJob:
    """Due again in so many seconds; at once if that was asked for while it was processed."""
    is_wanted = job.claimed_at is not None and job.due_at > job.claimed_at
    return replace(
        _released(job, "enabled"),
        due_at=now if is_wanted else now + due_in,
        priority=job.priority if is_wanted else 0,
        attempts=0,
        listed_at=now,
        tool_count=tool_count,
        error_code="",
        error_message="",
        failing_since=None,
        losses=0,
    )


def failed(
    job: RefreshJob, code: str, message: str, retry_in: float | None, now: float
) -> RefreshJob:
    """Return a failed job, to be tried again in `retry_in` seconds; with None it is dead."""
    state: JobState = "dead" if retry_in is None else "error"
    return replace(
        _released(job, state),
        due_at=now + (retry_in or 0.0),
        priority=0,
        error_code=code,
        error_message=message,
        failing_since=now if job.failing_since is None else job.failing_since,
        losses=0,
    )


def given_back(job: RefreshJob) -> RefreshJob:
    """Return the job as it was before it was claimed, but for its fence."""
    attempts = max(job.attempts - 1, 0)
    return replace(_released(job, _resting_state(job)), attempts=attempts)


def hastened(job: RefreshJob, priority: int, now: float) -> RefreshJob:
    """Due now; the same object for one that is dead or disabled."""
    job = corrected(job, now)
    if job.state in WAITING or job.state == "processing":
        due_at = now if job.state == "processing" else min(job.due_at, now)
        return replace(job, due_at=due_at, priority=max(job.priority, priority))
    return job


def retried(job: RefreshJob, now: float) -> RefreshJob:
    """Due now, with all attempts before it; the same object if it has neither failed nor died."""
    job = corrected(job, now)
    if job.state not in ("dead", "error"):
        return job
    return replace(_forgiven(job), state="error", due_at=now, priority=REQUESTED)


def _forgiven(job: RefreshJob) -> RefreshJob:
    """Return a job with all attempts before it."""
    return replace(job, attempts=0, failing_since=None, losses=0)


def _failing_for(job: RefreshJob) -> float:
    """Seconds for which a claimed server had been failing when it was claimed."""
    if job.claimed_at is None or job.failing_since is None:
        return 0.0
    return job.claimed_at - job.failing_since


def health_change(before: RefreshJob, after: RefreshJob) -> HealthChange | None:
    """Return `failing` if the server is failing since this step, `recovered` if it was listed."""
    if after.state in ("error", "dead"):
        return "failing" if after.error_code and not before.error_code else None
    is_listed = after.state == "enabled" and after.listed_at != before.listed_at
    return "recovered" if is_listed else None


def _released(job: RefreshJob, state: JobState) -> RefreshJob:
    return replace(job, state=state, holder="", claimed_at=None, lease_until=None)


def _resting_state(job: RefreshJob) -> JobState:
    if job.error_code:
        return "error"
    return "pending" if job.listed_at is None else "enabled"
