"""The refresh queue in PostgreSQL; `registry.refresh_queue` has its contract.

A claim is one statement, so that of workers that claim at once each gets other jobs and none waits.
Every other step locks its rows, takes the step that `fleet.schedule` says, and writes what is
different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from discovery_engine.fleet import schedule
from discovery_engine.fleet.refresh_job import NameMark, RefreshClaim, RefreshJob, RefreshTarget
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.registry.postgres.saved_listings import SaveMark
    from discovery_engine.registry.refresh_queue import ClaimedPart

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
            AND claimable_at <= (SELECT now FROM clock) AND server <> ALL(%(excluded)s::text[])
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
_SAVE = f"""
    INSERT INTO discovery.refresh_jobs (
        key, scope_key, scope, server, created_at, due_at, state, priority, attempts, holder, fence,
        claimed_at, lease_until, listed_at, tool_count, error_code, error_message, connection,
        claimable_at, failing_since, losses, named_until
    ) SELECT *, {_NOW} + {schedule.NAMED_FOR} FROM unnest(
        %s::bytea[], %s::bytea[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[],
        %s::int[], %s::int[], %s::text[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[],
        %s::int[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::int[]
    )
    ON CONFLICT (key) DO UPDATE SET
        due_at = excluded.due_at, state = excluded.state, priority = excluded.priority,
        attempts = excluded.attempts, holder = excluded.holder, fence = excluded.fence,
        claimed_at = excluded.claimed_at, lease_until = excluded.lease_until,
        listed_at = excluded.listed_at, tool_count = excluded.tool_count,
        error_code = excluded.error_code, error_message = excluded.error_message,
        connection = excluded.connection, claimable_at = excluded.claimable_at,
        failing_since = excluded.failing_since, losses = excluded.losses
    """  # noqa: S608 - as above
# What `schedule.succeeded` says of jobs that nobody has asked for since they were claimed. Those
# that another process writes just now, or that webhooks are to see as recovered, are left to
# transactions of their own: no row waits here, so none holds up the others.
_END_UNCHANGED = f"""
    WITH ended AS MATERIALIZED (
        SELECT job.key, {_NOW} AS now, due_in, tools
        FROM unnest(
            %s::bytea[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[],
            %s::int[]
        ) AS listed (key, holder, fence, server, saved, due_in, tools)
        JOIN discovery.servers ON servers.id = listed.server AND servers.saved = listed.saved
        JOIN discovery.refresh_jobs AS job ON job.key = listed.key
        WHERE job.state = 'processing' AND job.holder = listed.holder AND job.fence = listed.fence
            AND job.due_at <= job.claimed_at
            AND servers.part IS NOT NULL AND servers.told_failing_at IS NULL
        FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE discovery.refresh_jobs AS job SET
        state = 'enabled', holder = '', claimed_at = NULL, lease_until = NULL,
        due_at = now + due_in, claimable_at = now + due_in, priority = 0, attempts = 0,
        listed_at = now, tool_count = tools, error_code = '', error_message = '',
        failing_since = NULL, losses = 0
    FROM ended WHERE job.key = ended.key
    RETURNING job.key, job.fence
    """  # noqa: S608 - as above


def load(connection: Connection, scope: str) -> list[RefreshJob]:
    query = f"""
        SELECT {_COLUMNS} FROM discovery.refresh_jobs WHERE scope_key = %s ORDER BY server
        """  # noqa: S608 - as above
    return [_job(scope, row) for row in connection.execute(query, (key_of(scope),))]


def claim(
    connection: Connection,
    scope: str,
    holder: str,
    limit: int,
    lease: float,
    excluded: Collection[str] = (),
) -> list[RefreshJob]:
    rows = connection.execute(
        _CLAIM,
        {
            "scope": key_of(scope),
            "holder": to_column(holder),
            "limit": limit,
            "lease": lease,
            "excluded": [*map(to_column, excluded)],
            "most": schedule.MOST_LOSSES,
            "code": schedule.WORKER_LOST,
            "reason": schedule.LOST_REASON.replace("{}", "%s"),
        },
    )
    return [_job(scope, row) for row in rows]


def plan(connection: Connection, scope: str, targets: Collection[RefreshTarget]) -> None:
    # All who plan take turns: two that insert the same rows at once could deadlock. It is no
    # advisory lock, as every role of a database may hold one of those; other writes go on.
    connection.execute("LOCK TABLE discovery.refresh_jobs IN SHARE UPDATE EXCLUSIVE MODE")
    names = [one.server for one in targets]
    known = {job.server: job for job, _ in _locked(connection, scope, names)}
    now = present_time(connection)
    planned = [schedule.planned(known.get(one.server), scope, one, now) for one in targets]
    _save(connection, [job for job in planned if job is not known.get(job.server)])


def name_marks(connection: Connection, scope: str) -> list[NameMark]:
    """But for those that have been named of late, and are kept no longer than any can be."""
    query = f"""
        WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
        SELECT server, named_until - now FROM discovery.refresh_jobs, clock
        WHERE scope_key = %s AND coalesce(named_until, 0) NOT BETWEEN now + %s AND now + %s
        """  # noqa: S608 - as above
    values = key_of(scope), schedule.NAMED_FOR - schedule.NAMED_AGAIN, schedule.ADOPTED_FOR
    rows = connection.execute(query, values)
    return [NameMark(ServerName(from_column(name)), left) for name, left in rows]


def mark(connection: Connection, scope: str, servers: Iterable[str], seconds: float) -> None:
    # In the order in which every other step locks jobs.
    query = f"""
        WITH named AS (
            SELECT key FROM discovery.refresh_jobs WHERE key = ANY(%s) ORDER BY key FOR UPDATE
        )
        UPDATE discovery.refresh_jobs AS job SET named_until = {_NOW} + %s
        FROM named WHERE job.key = named.key
        """  # noqa: S608 - as above
    connection.execute(query, ([key_of(scope, server) for server in servers], seconds))


def drop_unnamed(connection: Connection, scope: str, servers: Iterable[str]) -> list[ServerName]:
    """Drop those of these jobs of which the mark has ended, and no claim is live."""
    # One that is locked is being claimed or named.
    query = f"""
        DELETE FROM discovery.refresh_jobs WHERE key IN (
            SELECT key FROM discovery.refresh_jobs
            WHERE key = ANY(%s) AND named_until <= {_NOW}
                AND NOT (state = 'processing' AND lease_until > {_NOW})
            FOR UPDATE SKIP LOCKED
        ) RETURNING server
        """  # noqa: S608 - as above
    rows = connection.execute(query, ([key_of(scope, server) for server in servers],))
    return [ServerName(from_column(name)) for (name,) in rows]


def step(
    connection: Connection,
    scope: str,
    servers: Collection[str],
    take: Callable[[RefreshJob, float], RefreshJob],
) -> list[tuple[RefreshJob, RefreshJob]]:
    """Take a step with some jobs; returns those it changes, before and after."""
    pairs = [(job, take(job, now)) for job, now in _locked(connection, scope, servers)]
    changed = [(job, new) for job, new in pairs if new is not job]
    _save(connection, [new for _, new in changed])
    return changed


def add(connection: Connection, jobs: Collection[RefreshJob]) -> None:
    """Add jobs of another registry; no later claim has the fence of one that was made there."""
    _save(connection, jobs)
    newest = max((job.fence for job in jobs), default=0)
    connection.execute(
        """
        SELECT setval(
            'discovery.refresh_fences', greatest(nextval('discovery.refresh_fences'), %s)
        )
        """,
        (newest,),
    )


def end_unchanged(
    connection: Connection, listed: Iterable[tuple[ClaimedPart, SaveMark]]
) -> frozenset[RefreshClaim]:
    """End valid claims of listings that are saved under these marks; returns which."""
    claims, rows = {}, []
    for one, saved in listed:
        claim = one.claim
        key = key_of(claim.scope, claim.server)
        claims[key, claim.fence] = claim
        holder = to_column(claim.holder)
        rows.append((key, holder, claim.fence, *saved, one.due_in, len(one.part.entries)))
    ended = connection.execute(_END_UNCHANGED, [*map(list, zip(*rows, strict=True))])
    return frozenset(claims[key, fence] for key, fence in ended)


def is_held(connection: Connection, claim: RefreshClaim) -> bool:
    """Whether a claim is valid; then it stays so until the end of the transaction."""
    query = """
        SELECT state, holder, fence FROM discovery.refresh_jobs WHERE key = %s FOR UPDATE
        """
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


def seconds_until_next(
    connection: Connection, scope: str, excluded: Collection[str]
) -> float | None:
    query = f"""
        SELECT min(claimable_at) - {_NOW} FROM discovery.refresh_jobs
        WHERE scope_key = %s AND claimable_at IS NOT NULL AND server <> ALL(%s::text[])
        """  # noqa: S608 - as above
    values = key_of(scope), [*map(to_column, excluded)]
    [seconds] = connection.execute(query, values).fetchone() or (None,)
    return None if seconds is None else max(float(seconds), 0.0)


def _locked(
    connection: Connection, scope: str, servers: Iterable[str]
) -> list[tuple[RefreshJob, float]]:
    query = f"""
        SELECT {_COLUMNS}, {_NOW} FROM discovery.refresh_jobs
        WHERE key = ANY(%s) ORDER BY key FOR UPDATE
        """  # noqa: S608 - as above
    keys = [key_of(scope, server) for server in servers]
    rows = connection.execute(query, (keys,)).fetchall()
    return [(_job(scope, row), now) for *row, now in rows]


def _save(connection: Connection, jobs: Iterable[RefreshJob]) -> None:
    if rows := [_row(job) for job in jobs]:
        connection.execute(_SAVE, [*map(list, zip(*rows, strict=True))])


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
