"""The owner's decisions in PostgreSQL; `registry.protocols` has their contract.

They have one copy here: the database has checksums, a log and backups of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from discovery_engine.registry.postgres import registered_queries
from discovery_engine.registry.records import (
    EVERY_SCOPE,
    AcceptanceRecord,
    ApprovalRecord,
    DecisionExport,
    EffectiveDecisions,
    LossRecord,
)
from discovery_engine.registry.stored_text import from_column, key_of, to_column
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.registry.postgres.timed_connection import TimedConnection

_ACCEPTANCE_FETCH_SIZE = 5_000  # acceptances, of which there is one for each tool: a few MB


def lock_number(connection: Connection) -> int:
    """The number of the newest decision, locked until the end of the transaction."""
    query = "SELECT number FROM discovery.decision_log FOR UPDATE"
    [number] = connection.execute(query).fetchone() or (0,)
    return int(number)


def number(connection: Connection) -> int:
    query = "SELECT number FROM discovery.decision_log"
    [newest] = connection.execute(query).fetchone() or (0,)
    return int(newest)


def set_number(connection: Connection, newest: int) -> None:
    connection.execute("UPDATE discovery.decision_log SET number = %s", (newest,))


def decisions(connection: TimedConnection, scope: str) -> Decisions:
    accepted: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    query = """
        SELECT server, tool, meaning, fingerprint FROM discovery.acceptances WHERE scope_key = %s
        """
    for server, tool, *digests in connection.rows(
        query, (key_of(scope),), at_once=_ACCEPTANCE_FETCH_SIZE
    ):
        accepted[from_column(server)][from_column(tool)].update(map(from_column, digests))
    return Decisions(
        approvals(connection, scope),
        {
            server: {tool: frozenset(digests) for tool, digests in tools.items()}
            for server, tools in accepted.items()
        },
        lost_at(connection, scope),
    )


def approvals(connection: Connection, scope: str) -> dict[str, frozenset[str]]:
    by_server: defaultdict[str, set[str]] = defaultdict(set)
    query = "SELECT server, identity FROM discovery.approvals WHERE scope_key = %s"
    for server, identity in connection.execute(query, (key_of(scope),)):
        by_server[from_column(server)].add(from_column(identity))
    return {server: frozenset(identities) for server, identities in by_server.items()}


def accepted(connection: Connection, scope: str, server: str) -> AcceptedTools:
    by_tool: defaultdict[str, set[str]] = defaultdict(set)
    query = """
        SELECT tool, meaning, fingerprint FROM discovery.acceptances WHERE server_key = %s
        """
    for tool, *digests in connection.execute(query, (key_of(scope, server),)):
        by_tool[from_column(tool)].update(map(from_column, digests))
    return {tool: frozenset(digests) for tool, digests in by_tool.items()}


def history(connection: Connection, scope: str, server: str) -> tuple[Acceptance, ...]:
    query = """
        SELECT tool, meaning, fingerprint, definition FROM discovery.acceptances
        WHERE server_key = %s ORDER BY number
        """
    rows = connection.execute(query, (key_of(scope, server),))
    return tuple(Acceptance(server, *map(from_column, row)) for row in rows)


def approve(
    connection: Connection, scope: str, new: Iterable[Approval], at: float, number: int
) -> int:
    """Returns how many were not kept already."""
    return sum(
        connection.execute(_APPROVE, approval_row(scope, approval, at, number + place)).rowcount
        for place, approval in enumerate(dict.fromkeys(new), 1)
    )


def revoke(connection: Connection, scope: str, servers: Iterable[str]) -> tuple[int, int]:
    """Returns how many approvals there were, and of how many servers."""
    query = "DELETE FROM discovery.approvals WHERE server_key = %s"
    counts = [
        connection.execute(query, (key_of(scope, server),)).rowcount
        for server in dict.fromkeys(servers)
    ]
    return sum(counts), sum(count > 0 for count in counts)


def accept(
    connection: Connection,
    scope: str,
    found: Sequence[Acceptance],
    at: float,
    number: int,
    *,
    if_new: bool,
) -> int:
    """Returns how many were kept; with `if_new` only those of tools of which none was.

    With `if_new` none is after a loss that the owner has not acknowledged.
    """
    if if_new and lost_at(connection, scope) is not None:
        return 0
    tools = _known_tools(connection, scope, found) if if_new else frozenset()
    acceptances = [
        acceptance for acceptance in found if (acceptance.server, acceptance.tool) not in tools
    ]
    with connection.cursor() as cursor:
        rows = [
            acceptance_row(scope, acceptance, at, number + n)
            for n, acceptance in enumerate(acceptances, 1)
        ]
        cursor.executemany(_ACCEPT, rows)
    return len(acceptances)


def lost_at(connection: Connection, scope: str) -> float | None:
    query = "SELECT key, at, acknowledged FROM discovery.losses WHERE key = ANY(%s)"
    keys = key_of(scope), key_of(EVERY_SCOPE)
    losses = {key: rest for key, *rest in connection.execute(query, (list(keys),))}
    at, acknowledged = losses.get(keys[0]) or losses.get(keys[1]) or (None, None)
    return at if acknowledged is None else None


def save_loss(connection: Connection, scope: str, at: float, acknowledged: float | None) -> None:
    if scope == EVERY_SCOPE and acknowledged is None:
        # It makes those before it void, also what their owners have acknowledged.
        connection.execute("DELETE FROM discovery.losses")
    connection.execute(
        """
        INSERT INTO discovery.losses (key, scope, at, acknowledged) VALUES (%s, %s, %s, %s)
        ON CONFLICT (key) DO UPDATE SET at = excluded.at, acknowledged = excluded.acknowledged
        """,
        (key_of(scope), to_column(scope), at, acknowledged),
    )


_APPROVE = """
    INSERT INTO discovery.approvals
        (key, number, scope, server, identity, at, scope_key, server_key)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (key) DO NOTHING
    """
_ACCEPT = """
    INSERT INTO discovery.acceptances (key, number, scope, server, tool, meaning, fingerprint,
        definition, at, scope_key, server_key)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET number = excluded.number, at = excluded.at,
        fingerprint = excluded.fingerprint, definition = excluded.definition
    """


def export(connection: TimedConnection, *, after: int) -> DecisionExport:
    """All decisions that are in effect, but of acceptances those that follow a number."""
    effective = EffectiveDecisions()
    query = "SELECT scope, server, identity, at FROM discovery.approvals ORDER BY number"
    for scope, server, identity, at in connection.execute(query):
        approval = Approval(from_column(server), from_column(identity))
        effective.add(ApprovalRecord(from_column(scope), approval, at))
    query = f"{_ACCEPTED} WHERE number > %s ORDER BY number"
    for row in connection.rows(query, (after,), at_once=_ACCEPTANCE_FETCH_SIZE):
        effective.add(_accepted(row))
    # That of every scope first: it makes those before it void.
    query = "SELECT scope, at, acknowledged FROM discovery.losses ORDER BY scope <> '*'"
    for scope, *rest in connection.execute(query):
        effective.add(LossRecord(from_column(scope), *rest))
    for record in registered_queries.records(connection):
        effective.add(record)
    return DecisionExport(number(connection), effective, registered_queries.marks(connection))


def last_accepted(connection: Connection, at_most: int) -> AcceptanceRecord | None:
    """The newest acceptance up to a number."""
    query = f"{_ACCEPTED} WHERE number <= %s ORDER BY number DESC LIMIT 1"
    row = connection.execute(query, (at_most,)).fetchone()
    return _accepted(row) if row else None


_ACCEPTED = """
    SELECT number, at, scope, server, tool, meaning, fingerprint, definition
    FROM discovery.acceptances
    """


def drop_trust(connection: Connection) -> None:
    """Drop all approvals and acceptances, and no loss."""
    lock_number(connection)
    connection.execute("DELETE FROM discovery.approvals; DELETE FROM discovery.acceptances")


def add_approvals(connection: Connection, approved: Iterable[tuple[int, ApprovalRecord]]) -> None:
    """Add approvals, each with its number."""
    rows = [
        approval_row(record.scope, record.approval, record.at, number)
        for number, record in approved
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_APPROVE, rows)


def add_acceptances(
    connection: Connection, accepted: Iterable[tuple[int, AcceptanceRecord]]
) -> None:
    """Add acceptances, each with its number."""
    rows = [
        acceptance_row(record.scope, record.acceptance, record.at, number)
        for number, record in accepted
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_ACCEPT, rows)


def replace_rest(connection: Connection, decisions: DecisionExport) -> None:
    """Hold these losses, servers and switches, and no others, and the number of the newest."""
    lock_number(connection)
    connection.execute("DELETE FROM discovery.losses")
    for loss in decisions.effective.losses.values():
        save_loss(connection, loss.scope, loss.at, loss.acknowledged)
    registered_queries.replace(connection, decisions)
    set_number(connection, decisions.number)


def approval_row(scope: str, one: Approval, at: float, number: int) -> tuple[object, ...]:
    texts = map(to_column, (scope, one.server, one.identity))
    key = key_of(scope, one.server, one.identity)
    return key, number, *texts, at, key_of(scope), key_of(scope, one.server)


def acceptance_row(scope: str, one: Acceptance, at: float, number: int) -> tuple[object, ...]:
    names = scope, one.server, one.tool, one.meaning
    texts = map(to_column, (*names, one.fingerprint, one.definition))
    return key_of(*names), number, *texts, at, key_of(scope), key_of(scope, one.server)


def _accepted(row: tuple[Any, ...]) -> AcceptanceRecord:
    _, at, *columns = row
    scope, *texts = map(from_column, columns)
    return AcceptanceRecord(scope, Acceptance(*texts), at)


def _known_tools(
    connection: Connection, scope: str, found: Iterable[Acceptance]
) -> frozenset[tuple[str, str]]:
    servers = {key_of(scope, acceptance.server) for acceptance in found}
    query = "SELECT DISTINCT server, tool FROM discovery.acceptances WHERE server_key = ANY(%s)"
    rows = connection.execute(query, (list(servers),))
    return frozenset((from_column(server), from_column(tool)) for server, tool in rows)
