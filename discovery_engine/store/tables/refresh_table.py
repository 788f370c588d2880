"""The table of the refresh queue; `store.refresh_job` describes its contract.

Workers that claim at the same time get different jobs, and none waits for another. Every other step
locks its jobs in the order of their keys, computes them by a function of `store.schedule`, and
writes those that have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from discovery_engine._util.batches import batches
from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import (
    NameMark,
    RefreshClaim,
    RefreshJob,
    RefreshTarget,
)
from discovery_engine.store.stored_text import from_column, key_of, to_column
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.store.refresh_job import ClaimedPart
    from discovery_engine.store.saved_listings import SaveMark
    from discovery_engine.store.statements import Connection

_MOST_PARAMETERS = 900  # in one statement; builds of SQLite before 3.32 take 999
_COLUMNS = """
    server, created_at, due_at, state, priority, attempts, holder, fence, claimed_at, lease_until,
    listed_at, tool_count, error_code, error_message, connection, failing_since, losses
    """
_ADD = """
    INSERT INTO refresh_jobs (
        due_at, state, priority, attempts, holder, fence, claimed_at, lease_until, listed_at,
        tool_count, error_code, error_message, connection, claimable_at, failing_since, losses,
        key, scope_key, scope, server, created_at, named_until
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        due_at = excluded.due_at, state = excluded.state, priority = excluded.priority,
        attempts = excluded.attempts, holder = excluded.holder, fence = excluded.fence,
        claimed_at = excluded.claimed_at, lease_until = excluded.lease_until,
        listed_at = excluded.listed_at, tool_count = excluded.tool_count,
        error_code = excluded.error_code, error_message = excluded.error_message,
        connection = excluded.connection, claimable_at = excluded.claimable_at,
        failing_since = excluded.failing_since, losses = excluded.losses
    """
_CHANGE = """
    UPDATE refresh_jobs SET
        due_at = ?, state = ?, priority = ?, attempts = ?, holder = ?, fence = ?, claimed_at = ?,
        lease_until = ?, listed_at = ?, tool_count = ?, error_code = ?, error_message = ?,
        connection = ?, claimable_at = ?, failing_since = ?, losses = ?
    WHERE key = ?
    """


def load(connection: Connection, scope: str) -> list[RefreshJob]:
    """Return all jobs of a scope, sorted by server."""
    statement = f"SELECT {_COLUMNS} FROM refresh_jobs WHERE scope_key = ?"  # noqa: S608 - constants
    jobs = [_job(scope, row) for row in connection.execute(statement, (key_of(scope),))]
    return sorted(jobs, key=lambda job: job.server)


def claim(
    connection: Connection,
    scope: str,
    holder: str,
    limit: int,
    lease: float,
    excluded: Collection[str] = (),
) -> list[RefreshJob]:
    now = connection.now()
    statement = f"""
        SELECT {_COLUMNS} FROM refresh_jobs
        WHERE scope_key = ? AND claimable_at IS NOT NULL AND claimable_at <= ?{_but(excluded)}
        ORDER BY priority DESC, claimable_at, created_at, server LIMIT ?{connection.skip_locked}
        """  # noqa: S608 - made of constants and question marks
    values = key_of(scope), now, *map(to_column, excluded), limit
    jobs = [_job(scope, row) for row in connection.execute(statement, values).fetchall()]
    fences = connection.next_fences(len(jobs)) if jobs else []
    claimed = [
        schedule.claimed(job, holder, lease, now, least_fence=fence)
        for job, fence in zip(jobs, fences, strict=True)
    ]
    _change(connection, claimed)
    return claimed


def plan(connection: Connection, scope: str, targets: Collection[RefreshTarget]) -> None:
    # Planners take turns, since two that insert the same rows could deadlock. This is no advisory
    # lock, because any role of the database could hold one; other writes go on.
    connection.lock_table("refresh_jobs")
    jobs = {job.server: job for job in _locked(connection, scope, [t.server for t in targets])}
    now = connection.now()
    planned = [schedule.planned(jobs.get(target.server), scope, target, now) for target in targets]
    _add(connection, [job for job in planned if job is not jobs.get(job.server)], now)


def name_marks(connection: Connection, scope: str) -> list[NameMark]:
    """Return the marks of a scope that may have to change.

    Left out are those that were renewed lately and do not end later than any valid mark can.
    """
    statement = """
        SELECT server, named_until FROM refresh_jobs
        WHERE scope_key = ? AND coalesce(named_until, 0) NOT BETWEEN ? AND ?
        """
    now = connection.now()
    named = now + schedule.NAMED_FOR - schedule.NAMED_AGAIN
    rows = connection.execute(statement, (key_of(scope), named, now + schedule.ADOPTED_FOR))
    return [
        NameMark(ServerName(from_column(name)), None if until is None else until - now)
        for name, until in rows
    ]


def mark(connection: Connection, scope: str, servers: Iterable[str], seconds: float) -> None:
    until = connection.now() + seconds
    keys = sorted(key_of(scope, server) for server in servers)
    statement = "UPDATE refresh_jobs SET named_until = ? WHERE key = ?"
    connection.executemany(statement, [(until, key) for key in keys])


def drop_unnamed(connection: Connection, scope: str, servers: Iterable[str]) -> list[ServerName]:
    """Delete the jobs of these servers whose mark has expired and that no worker holds.

    Returns:
        The servers of the deleted jobs.
    """
    now = connection.now()
    condition = """
        AND named_until <= ? AND NOT (state = 'processing' AND coalesce(lease_until, 0) > ?)
        """
    rows = _rows(
        connection, scope, servers, "server", condition=condition, values=(now, now),
        lock=connection.skip_locked,  # a locked job is being claimed or named
    )  # fmt: skip
    gone = [ServerName(from_column(name)) for (name,) in rows]
    keys = [(key_of(scope, name),) for name in gone]
    connection.executemany("DELETE FROM refresh_jobs WHERE key = ?", keys)
    return gone


def step(
    connection: Connection,
    scope: str,
    servers: Collection[str],
    take: Callable[[RefreshJob, float], RefreshJob],
) -> list[tuple[RefreshJob, RefreshJob]]:
    """Take a step with the jobs of servers; return each changed job before and after it."""
    jobs = _locked(connection, scope, servers)
    now = connection.now()
    pairs = [(job, take(job, now)) for job in jobs]
    changed = [(job, new) for job, new in pairs if new is not job]
    _change(connection, [new for _, new in changed])
    return changed


def end_unchanged(
    connection: Connection, listed: Iterable[tuple[ClaimedPart, SaveMark]]
) -> frozenset[RefreshClaim]:
    """End the valid claims of listings that are saved under these marks; return them.

    Jobs that were hastened since they were claimed, that another process is writing, or whose
    server webhooks must report as recovered, are left out: they need transactions of their own.
    So this one never waits for a row.
    """
    marks = {mark.server: mark.save for _, mark in listed}
    saved = set[tuple[int, int]]()
    for some in batches(marks, lambda _: 1, most=_MOST_PARAMETERS):
        statement = f"""
            SELECT id, saved FROM servers WHERE id IN ({_marks(some)})
                AND part IS NOT NULL AND told_failing_at IS NULL
            """  # noqa: S608 - question marks
        saved.update((key, save) for key, save in connection.execute(statement, some))
    same = [entry for entry, mark in listed if tuple(mark) in saved]
    scopes: dict[str, dict[str, ClaimedPart]] = {}
    for entry in same:
        scopes.setdefault(entry.claim.scope, {})[entry.claim.server] = entry
    ended: list[RefreshJob] = []
    claims = set[RefreshClaim]()
    now = connection.now()
    for scope, parts in scopes.items():
        rows = _rows(connection, scope, parts, _COLUMNS, lock=connection.skip_locked)
        for job in (_job(scope, row) for row in rows):
            entry = parts[job.server]
            is_wanted = job.claimed_at is None or job.due_at > job.claimed_at
            if job.is_held_by(entry.claim) and not is_wanted:
                ended.append(schedule.succeeded(job, len(entry.part.entries), entry.due_in, now))
                claims.add(entry.claim)
    _change(connection, ended)
    return frozenset(claims)


def with_jobs(
    connection: Connection, scope: str, servers: Collection[ServerName]
) -> frozenset[ServerName]:
    """Return those of these servers that have a job."""
    rows = _rows(connection, scope, servers, "server")
    return frozenset(ServerName(from_column(name)) for (name,) in rows)


def is_held(connection: Connection, claim: RefreshClaim) -> bool:
    """Return whether a claim is valid, and lock its job for the rest of the transaction."""
    return any(job.is_held_by(claim) for job in _locked(connection, claim.scope, [claim.server]))


def tended(connection: Connection, scope: str, grace: float) -> frozenset[ServerName]:
    """Return the servers whose jobs can be claimed, and are overdue by at most `grace` seconds."""
    statement = """
        SELECT server FROM refresh_jobs
        WHERE scope_key = ? AND claimable_at IS NOT NULL AND due_at > ?
        """
    rows = connection.execute(statement, (key_of(scope), connection.now() - grace))
    return frozenset(ServerName(from_column(name)) for (name,) in rows)


def seconds_until_next(
    connection: Connection, scope: str, excluded: Collection[str]
) -> float | None:
    statement = f"""
        SELECT min(claimable_at) FROM refresh_jobs WHERE scope_key = ?{_but(excluded)}
        """  # noqa: S608 - question marks
    values = key_of(scope), *map(to_column, excluded)
    [at] = connection.execute(statement, values).fetchone()
    return None if at is None else max(at - connection.now(), 0.0)


def is_unclaimed(connection: Connection, job: RefreshJob) -> bool:
    """Lock a job, and return whether no worker has claimed it since it was read."""
    jobs = _locked(connection, job.scope, [job.server])
    return [present.fence for present in jobs] == [job.fence]


def _locked(connection: Connection, scope: str, servers: Iterable[str]) -> list[RefreshJob]:
    rows = _rows(connection, scope, servers, _COLUMNS, lock=connection.for_update)
    return [_job(scope, row) for row in rows]


def _rows(
    connection: Connection,
    scope: str,
    servers: Iterable[str],
    columns: str,
    *,
    condition: str = "",
    values: Sequence[object] = (),
    lock: str = "",
) -> Iterator[Any]:
    """Yield `columns` of the jobs of these servers, in the order of their keys.

    `condition` with its `values`, and `lock`, are appended to each statement.
    """
    keys = sorted(key_of(scope, server) for server in servers)
    for some in batches(keys, lambda _: 1, most=_MOST_PARAMETERS):
        statement = f"""
            SELECT {columns} FROM refresh_jobs WHERE key IN ({_marks(some)}) {condition}
            ORDER BY key{lock}
            """  # noqa: S608 - constants and question marks
        yield from connection.execute(statement, (*some, *values)).fetchall()


def _but(excluded: Collection[str]) -> str:
    return f" AND server NOT IN ({_marks(excluded)})" if excluded else ""


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _add(connection: Connection, jobs: Iterable[RefreshJob], now: float) -> None:
    connection.executemany(
        _ADD,
        [
            (
                *_state(job), key_of(job.scope, job.server), key_of(job.scope),
                to_column(job.scope), to_column(job.server), job.created_at,
                now + schedule.NAMED_FOR,
            )
            for job in jobs
        ],
    )  # fmt: skip


def _change(connection: Connection, jobs: Iterable[RefreshJob]) -> None:
    connection.executemany(_CHANGE, [(*_state(job), key_of(job.scope, job.server)) for job in jobs])


def _state(job: RefreshJob) -> tuple[object, ...]:
    """Return the columns of a job that can change, in the order of `_CHANGE`."""
    return (
        job.due_at, job.state, job.priority, job.attempts, to_column(job.holder), job.fence,
        job.claimed_at, job.lease_until, job.listed_at, job.tool_count, job.error_code,
        to_column(job.error_message), job.connection, job.claimable_at, job.failing_since,
        job.losses,
    )  # fmt: skip


def _job(scope: str, row: Sequence[Any]) -> RefreshJob:
    *first, reached, failing_since, losses = row
    server, *times, holder, fence, claimed, lease, listed, tools, code, message = first
    created, due, state, priority, attempts = times
    return RefreshJob(
        scope, ServerName(from_column(server)), created, due, state, priority, attempts,
        from_column(holder), fence, claimed, lease, listed, tools, code, from_column(message),
        reached, failing_since, losses,
    )  # fmt: skip
