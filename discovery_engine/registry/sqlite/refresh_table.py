"""The refresh queue in SQLite; `registry.protocols` has its contract.

Every step is part of an immediate transaction, so no other process writes between its parts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from discovery_engine.fleet import schedule
from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
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
        failing_since, losses
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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


def claim(
    connection: sqlite3.Connection, scope: str, holder: str, limit: int, lease: float, now: float
) -> list[RefreshJob]:
    query = f"""
        SELECT {_COLUMNS} FROM refresh_jobs
        WHERE scope = ? AND claimable_at IS NOT NULL AND claimable_at <= ?
        ORDER BY priority DESC, claimable_at, created_at, server LIMIT ?
        """  # noqa: S608 - as above
    rows = connection.execute(query, (as_text(scope), now, limit)).fetchall()
    fences = _next_fences(connection, len(rows)) if rows else range(0)
    jobs = [
        schedule.claimed(_job(scope, row), holder, lease, now, least_fence=fence)
        for row, fence in zip(rows, fences, strict=True)
    ]
    _save(connection, jobs)
    return jobs


def plan(
    connection: sqlite3.Connection, scope: str, targets: Mapping[str, RefreshTarget], now: float
) -> int:
    """Returns how many jobs are different."""
    known = {job.server: job for job in load(connection, scope)}
    gone = [(as_text(scope), as_text(name)) for name in known if name not in targets]
    connection.executemany("DELETE FROM refresh_jobs WHERE scope = ? AND server = ?", gone)
    planned = [schedule.planned(known.get(one.server), scope, one, now) for one in targets.values()]
    different = [job for job in planned if job is not known.get(job.server)]
    _save(connection, different)
    return len(gone) + len(different)


def step(
    connection: sqlite3.Connection,
    scope: str,
    servers: Collection[str] | None,
    take: Callable[[RefreshJob], RefreshJob],
) -> list[tuple[RefreshJob, RefreshJob]]:
    """Take a step with some jobs, all with None; returns those it changes, before and after."""
    pairs = [(job, take(job)) for job in load(connection, scope, servers)]
    changed = [(job, new) for job, new in pairs if new is not job]
    _save(connection, [new for _, new in changed])
    return changed


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


def seconds_until_next(connection: sqlite3.Connection, scope: str, now: float) -> float | None:
    query = """
        SELECT max(min(claimable_at) - ?, 0) FROM refresh_jobs
        WHERE scope = ? AND claimable_at IS NOT NULL
        """
    row = connection.execute(query, (now, as_text(scope))).fetchone()
    return row[0] if row else None


def _next_fences(connection: sqlite3.Connection, count: int) -> range:
    connection.execute("UPDATE refresh_fences SET last = last + ?", (count,))
    [last] = connection.execute("SELECT last FROM refresh_fences").fetchone()
    return range(last - count + 1, last + 1)


def _save(connection: sqlite3.Connection, jobs: Iterable[RefreshJob]) -> None:
    connection.executemany(_SAVE, map(_row, jobs))


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
