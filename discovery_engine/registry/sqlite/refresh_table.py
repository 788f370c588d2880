"""The refresh queue in SQLite; `registry.refresh_queue` has its contract.

Every step is part of an immediate transaction, so no other process writes between its parts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

from discovery_engine.fleet import schedule
from discovery_engine.fleet.refresh_job import NameMark, RefreshClaim, RefreshJob, RefreshTarget
from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.tools.model import ServerName

_COLUMNS = """
    server, created_at, due_at, state, priority, attempts, holder, fence, claimed_at, lease_until,
    listed_at, tool_count, error_code, error_message, connection, failing_since, losses
    """
_SAVE = """
    INSERT INTO refresh_jobs (
        scope, server, created_at, due_at, state, priority, attempts, holder, fence, claimed_at,
        lease_until, listed_at, tool_count, error_code, error_message, connection, claimable_at,
        failing_since, losses, named_until
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (scope, server) DO UPDATE SET
        due_at = excluded.due_at, state = excluded.state, priority = excluded.priority,
        attempts = excluded.attempts, holder = excluded.holder, fence = excluded.fence,
        claimed_at = excluded.claimed_at, lease_until = excluded.lease_until,
        listed_at = excluded.listed_at, tool_count = excluded.tool_count,
        error_code = excluded.error_code, error_message = excluded.error_message,
        connection = excluded.connection, claimable_at = excluded.claimable_at,
        failing_since = excluded.failing_since, losses = excluded.losses
    """


def load(
    connection: sqlite3.Connection, scope: str, servers: Collection[str] | None = None
) -> list[RefreshJob]:
    """Those of these servers, in the order of their names; all with None."""
    query = f"SELECT {_COLUMNS} FROM refresh_jobs WHERE scope = ? "  # noqa: S608 - constants
    if servers is None:
        rows = connection.execute(query + "ORDER BY server", (as_text(scope),))
        return [_job(scope, row) for row in rows]
    query += "AND server = ?"
    found = (connection.execute(query, (as_text(scope), as_text(name))) for name in servers)
    return [_job(scope, row) for rows in found for row in rows]


def due(
    connection: sqlite3.Connection, scope: str, limit: int, now: float, excluded: Collection[str]
) -> list[RefreshJob]:
    """The jobs to claim, in the order of the queue; the rest of it is not read."""
    query = f"""
        SELECT {_COLUMNS} FROM refresh_jobs
        WHERE scope = ? AND claimable_at IS NOT NULL AND claimable_at <= ?
        ORDER BY priority DESC, claimable_at, created_at, server
        """  # noqa: S608 - as above
    jobs = (_job(scope, row) for row in connection.execute(query, (as_text(scope), now)))
    return [*islice((job for job in jobs if job.server not in excluded), limit)]


def claim(
    connection: sqlite3.Connection, jobs: list[RefreshJob], holder: str, lease: float, now: float
) -> list[RefreshJob]:
    fences = _next_fences(connection, len(jobs)) if jobs else range(0)
    claimed = [
        schedule.claimed(job, holder, lease, now, least_fence=fence)
        for job, fence in zip(jobs, fences, strict=True)
    ]
    _save(connection, claimed)
    return claimed


def plan(
    connection: sqlite3.Connection, scope: str, targets: Collection[RefreshTarget], now: float
) -> None:
    names = [one.server for one in targets]
    known = {job.server: job for job in load(connection, scope, names)}
    planned = [schedule.planned(known.get(one.server), scope, one, now) for one in targets]
    different = [job for job in planned if job is not known.get(job.server)]
    _save(connection, different, named_at=now)


def name_marks(connection: sqlite3.Connection, scope: str, now: float) -> list[NameMark]:
    """But for those that have been named of late, and are kept no longer than any can be."""
    query = """
        SELECT server, named_until - :now FROM refresh_jobs
        WHERE scope = :scope AND coalesce(named_until, 0) NOT BETWEEN :named AND :adopted
        """
    values = {
        "scope": as_text(scope),
        "now": now,
        "named": now + schedule.NAMED_FOR - schedule.NAMED_AGAIN,
        "adopted": now + schedule.ADOPTED_FOR,
    }
    rows = connection.execute(query, values)
    return [NameMark(ServerName(from_column(name)), left) for name, left in rows]


def mark(connection: sqlite3.Connection, scope: str, servers: Iterable[str], until: float) -> None:
    query = "UPDATE refresh_jobs SET named_until = ? WHERE scope = ? AND server = ?"
    connection.executemany(query, [(until, as_text(scope), as_text(name)) for name in servers])


def drop_unnamed(
    connection: sqlite3.Connection, scope: str, servers: Iterable[ServerName], now: float
) -> list[ServerName]:
    """Drop those of these jobs of which the mark has ended, and no claim is live."""
    query = """
        DELETE FROM refresh_jobs WHERE scope = ? AND server = ? AND named_until <= ?
            AND NOT (state = 'processing' AND lease_until > ?)
        """
    return [
        name
        for name in servers
        if connection.execute(query, (as_text(scope), as_text(name), now, now)).rowcount
    ]


def step(
    connection: sqlite3.Connection,
    scope: str,
    servers: Collection[str],
    take: Callable[[RefreshJob], RefreshJob],
) -> list[tuple[RefreshJob, RefreshJob]]:
    """Take a step with some jobs; returns those it changes, before and after."""
    pairs = [(job, take(job)) for job in load(connection, scope, servers)]
    changed = [(job, new) for job, new in pairs if new is not job]
    _save(connection, [new for _, new in changed])
    return changed


def add(connection: sqlite3.Connection, jobs: Collection[RefreshJob], now: float) -> None:
    """Add jobs of another registry; no later claim has the fence of one that was made there."""
    _save(connection, jobs, named_at=now)
    newest = max((job.fence for job in jobs), default=0)
    connection.execute("UPDATE refresh_fences SET last = max(last, ?)", (newest,))


def is_held(connection: sqlite3.Connection, claim: RefreshClaim) -> bool:
    return any(job.is_held_by(claim) for job in load(connection, claim.scope, (claim.server,)))


def due_after(connection: sqlite3.Connection, scope: str, at: float) -> frozenset[ServerName]:
    """The servers that workers may claim, but for those that were due before."""
    query = """
        SELECT server FROM refresh_jobs
        WHERE scope = ? AND claimable_at IS NOT NULL AND due_at > ?
        """
    rows = connection.execute(query, (as_text(scope), at))
    return frozenset(ServerName(from_column(name)) for (name,) in rows)


def seconds_until_next(
    connection: sqlite3.Connection, scope: str, now: float, excluded: Collection[str]
) -> float | None:
    query = """
        SELECT server, claimable_at FROM refresh_jobs WHERE scope = ? AND claimable_at IS NOT NULL
        """
    rows = connection.execute(query, (as_text(scope),))
    times = [at for server, at in rows if from_column(server) not in excluded]
    return max(min(times) - now, 0.0) if times else None


def _next_fences(connection: sqlite3.Connection, count: int) -> range:
    connection.execute("UPDATE refresh_fences SET last = last + ?", (count,))
    [last] = connection.execute("SELECT last FROM refresh_fences").fetchone()
    return range(last - count + 1, last + 1)


def _save(
    connection: sqlite3.Connection, jobs: Iterable[RefreshJob], *, named_at: float | None = None
) -> None:
    """Save jobs; those that are new are named since `named_at`."""
    named_until = None if named_at is None else named_at + schedule.NAMED_FOR
    connection.executemany(_SAVE, [(*_row(job), named_until) for job in jobs])


def _row(job: RefreshJob) -> tuple[object, ...]:
    return (
        as_text(job.scope), as_text(job.server), job.created_at, job.due_at, job.state,
        job.priority, job.attempts, as_text(job.holder), job.fence, job.claimed_at,
        job.lease_until, job.listed_at, job.tool_count, job.error_code,
        as_text(job.error_message), job.connection, job.claimable_at, job.failing_since,
        job.losses,
    )  # fmt: skip


def _job(scope: str, row: Iterable[Any]) -> RefreshJob:
    *first, reached, failing_since, losses = row
    server, *times, holder, fence, claimed, lease, listed, tools, code, message = first
    created, due, state, priority, attempts = times
    return RefreshJob(
        scope, ServerName(from_column(server)), created, due, state, priority, attempts,
        from_column(holder), fence, claimed, lease, listed, tools, code, from_column(message),
        reached, failing_since, losses,
    )  # fmt: skip
