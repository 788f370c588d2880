"""The refresh queue in PostgreSQL; `registry.protocols` has its contract.

A claim is one statement, so that of workers that claim at once each gets other jobs and none waits.
Every other step locks its rows, takes the step that `fleet.schedule` says, and writes what is
different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from discovery_engine.fleet import schedule
from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

_COLUMNS = """
    server, created_at, due_at, state, priority, attempts, holder, fence, claimed_at, lease_until,
    listed_at, tool_count, error_code, error_message, connection, failing_since, losses
    """
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_CLAIM = f"""
    WITH clock AS MATERIALIZED (SELECT {_NOW} AS now),
    due AS (
        SELECT key, losses + (state = 'processing')::int AS lost
        FROM discovery.refresh_jobs
        WHERE scope_key = %(scope)s AND claimable_at IS NOT NULL
            AND claimable_at <= (SELECT now FROM clock)
        ORDER BY priority DESC, claimable_at, created_at, server
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ),
    taken AS (SELECT key, lost, lost >= %(most)s AS is_lost FROM due)
    UPDATE discovery.refresh_jobs AS job SET
        state = CASE WHEN is_lost THEN 'dead' ELSE 'processing' END,
        attempts = attempts + CASE WHEN is_lost THEN 0 ELSE 1 END,
        holder = CASE WHEN is_lost THEN '' ELSE %(holder)s END,
        fence = CASE WHEN is_lost THEN fence
            ELSE greatest(fence + 1, nextval('discovery.refresh_fences')) END,
        losses = CASE WHEN is_lost THEN losses ELSE lost END,
        claimed_at = CASE WHEN is_lost THEN NULL ELSE now END,
        lease_until = CASE WHEN is_lost THEN NULL ELSE now + %(lease)s END,
        claimable_at = CASE WHEN is_lost THEN NULL ELSE now + %(lease)s END,
        error_code = CASE WHEN is_lost THEN %(code)s ELSE error_code END,
        error_message = CASE WHEN is_lost THEN format(%(reason)s, lost) ELSE error_message END
    FROM taken, clock WHERE job.key = taken.key
    RETURNING {_COLUMNS}
    """  # noqa: S608 - made of constants
_SAVE = """
    INSERT INTO discovery.refresh_jobs (
        key, scope_key, scope, server, created_at, due_at, state, priority, attempts, holder, fence,
        claimed_at, lease_until, listed_at, tool_count, error_code, error_message, connection,
        claimable_at, failing_since, losses
    ) VALUES (
        %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
    )
    ON CONFLICT (key) DO UPDATE SET
        due_at = excluded.due_at, state = excluded.state, priority = excluded.priority,
        attempts = excluded.attempts, holder = excluded.holder, fence = excluded.fence,
        claimed_at = excluded.claimed_at, lease_until = excluded.lease_until,
        listed_at = excluded.listed_at, tool_count = excluded.tool_count,
        error_code = excluded.error_code, error_message = excluded.error_message,
        connection = excluded.connection, claimable_at = excluded.claimable_at,
        failing_since = excluded.failing_since, losses = excluded.losses
    """


def load(connection: Connection, scope: str) -> list[RefreshJob]:
    query = f"""
        SELECT {_COLUMNS} FROM discovery.refresh_jobs WHERE scope_key = %s ORDER BY server
        """  # noqa: S608 - as above
    return [_job(scope, row) for row in connection.execute(query, (key_of(scope),))]


def claim(
    connection: Connection, scope: str, holder: str, limit: int, lease: float
) -> list[RefreshJob]:
    rows = connection.execute(
        _CLAIM,
        {
            "scope": key_of(scope),
            "holder": to_column(holder),
            "limit": limit,
            "lease": lease,
            "most": schedule.MOST_LOSSES,
            "code": schedule.WORKER_LOST,
            "reason": schedule.LOST_REASON.replace("{}", "%s"),
        },
    )
    return [_job(scope, row) for row in rows]


def plan(connection: Connection, scope: str, targets: Mapping[str, RefreshTarget]) -> int:
    """Returns how many jobs are different."""
    # All who plan a scope take turns: two that insert the same rows at once could deadlock.
    connection.execute(
        "SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(key_of(scope)[:8], signed=True),)
    )
    gone = connection.execute(
        "DELETE FROM discovery.refresh_jobs WHERE scope_key = %s AND key <> ALL(%s)",
        (key_of(scope), [key_of(scope, name) for name in targets]),
    ).rowcount
    now = _now(connection)
    known = {job.server: job for job in load(connection, scope)}
    planned = (schedule.planned(known.get(one.server), scope, one, now) for one in targets.values())
    different = [job.server for job in planned if job is not known.get(job.server)]
    locked = {job.server: job for job, _ in _locked(connection, scope, different)}
    _save(
        connection,
        [schedule.planned(locked.get(name), scope, targets[name], now) for name in different],
    )
    return gone + len(different)


def step(
    connection: Connection,
    scope: str,
    servers: Collection[str] | None,
    take: Callable[[RefreshJob, float], RefreshJob],
) -> list[tuple[RefreshJob, RefreshJob]]:
    """Take a step with some jobs, all with None; returns those it changes, before and after."""
    pairs = [(job, take(job, now)) for job, now in _locked(connection, scope, servers)]
    changed = [(job, new) for job, new in pairs if new is not job]
    _save(connection, [new for _, new in changed])
    return changed


def is_held(connection: Connection, claim: RefreshClaim, *, lock: bool) -> bool:
    """Whether a claim is valid; with `lock` it stays so until the end of the transaction."""
    query = f"""
        SELECT state, holder, fence FROM discovery.refresh_jobs WHERE key = %s
        {"FOR UPDATE" if lock else ""}
        """  # noqa: S608 - as above
    row = connection.execute(query, (key_of(claim.scope, claim.server),)).fetchone()
    return row == ("processing", to_column(claim.holder), claim.fence)


def present_time(connection: Connection) -> float:
    [now] = connection.execute(f"SELECT {_NOW}").fetchone() or (0.0,)
    return float(now)


def tended(connection: Connection, scope: str, grace: float) -> frozenset[ServerName]:
    """The servers that workers may claim, but for those that are due since more than `grace` s."""
    query = f"""
        SELECT server FROM discovery.refresh_jobs
        WHERE scope_key = %s AND claimable_at IS NOT NULL AND due_at > {_NOW} - %s
        """  # noqa: S608 - as above
    rows = connection.execute(query, (key_of(scope), grace))
    return frozenset(ServerName(from_column(name)) for (name,) in rows)


def seconds_until_next(connection: Connection, scope: str) -> float | None:
    query = f"""
        SELECT min(claimable_at) - {_NOW} FROM discovery.refresh_jobs
        WHERE scope_key = %s AND claimable_at IS NOT NULL
        """  # noqa: S608 - as above
    [seconds] = connection.execute(query, (key_of(scope),)).fetchone() or (None,)
    return None if seconds is None else max(float(seconds), 0.0)


def _locked(
    connection: Connection, scope: str, servers: Collection[str] | None
) -> Iterable[tuple[RefreshJob, float]]:
    chosen = "TRUE" if servers is None else "key = ANY(%(keys)s)"
    query = f"""
        SELECT {_COLUMNS}, {_NOW} FROM discovery.refresh_jobs
        WHERE scope_key = %(scope)s AND {chosen} ORDER BY key FOR UPDATE
        """  # noqa: S608 - as above
    keys = [key_of(scope, server) for server in servers or ()]
    rows = connection.execute(query, {"scope": key_of(scope), "keys": keys}).fetchall()
    return [(_job(scope, row), now) for *row, now in rows]


def _save(connection: Connection, jobs: Iterable[RefreshJob]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(_SAVE, map(_row, jobs))


def _now(connection: Connection) -> float:
    [now] = connection.execute(f"SELECT {_NOW}").fetchone() or (0.0,)
    return float(now)


def _row(job: RefreshJob) -> tuple[object, ...]:
    return (
        key_of(job.scope, job.server), key_of(job.scope), to_column(job.scope),
        to_column(job.server), job.created_at, job.due_at, job.state, job.priority, job.attempts,
        to_column(job.holder), job.fence, job.claimed_at, job.lease_until, job.listed_at,
        job.tool_count, job.error_code, to_column(job.error_message), job.connection,
        job.claimable_at, job.failing_since, job.losses,
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
