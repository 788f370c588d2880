"""The owner's decisions in SQLite; `registry.protocols` has their contract.

Each row has a checksum, and the number of rows is kept, so that damage which leaves the file
readable shows as well. An index that is damaged may hide a row: what reads all decisions scans the
tables, and what reads those of one server compares their number with that of a scan.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from discovery_engine.registry.records import (
    EVERY_SCOPE,
    AcceptanceRecord,
    ApprovalRecord,
    EffectiveDecisions,
    LossRecord,
    NewerDecisions,
    Record,
    RevocationRecord,
    records_between,
)
from discovery_engine.registry.sqlite import server_tables
from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.registry.sqlite.row_checksum import checksum_of, is_intact
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions


def decisions(connection: sqlite3.Connection, scope: str) -> Decisions:
    approvals: defaultdict[str, set[str]] = defaultdict(set)
    query = "SELECT server, identity FROM approvals NOT INDEXED WHERE scope = ?"
    for server, identity in connection.execute(query, (as_text(scope),)):
        approvals[from_column(server)].add(identity)
    accepted: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    query = "SELECT server, tool, meaning, fingerprint FROM acceptances NOT INDEXED WHERE scope = ?"
    for server, tool, *digests in connection.execute(query, (as_text(scope),)):
        accepted[from_column(server)][from_column(tool)].update(digests)
    return Decisions(
        {server: frozenset(identities) for server, identities in approvals.items()},
        {
            server: {tool: frozenset(digests) for tool, digests in tools.items()}
            for server, tools in accepted.items()
        },
        lost_at(connection, scope),
    )


_MOST_VOID = 1000  # decisions that others have made void since

RowCounts: TypeAlias = Mapping[tuple[str, str], int]
"""How many acceptances there are, by scope and server."""


def count_rows(connection: sqlite3.Connection) -> RowCounts | None:
    """Returns None if there are not as many rows as were written."""
    # 0.6 us for each acceptance, once for a process that lists; to read all of them costs 14.
    query = "SELECT scope, server, count(*) FROM acceptances NOT INDEXED GROUP BY scope, server"
    counts = {
        (from_column(scope), from_column(server)): count
        for scope, server, count in connection.execute(query)
    }
    query = """
        SELECT (SELECT count(*) FROM approvals NOT INDEXED)
            + (SELECT count(*) FROM losses NOT INDEXED)
            + (SELECT count(*) FROM registered_servers NOT INDEXED)
            + (SELECT count(*) FROM switches NOT INDEXED)
        """
    [others] = connection.execute(query).fetchone()
    total = connection.execute("SELECT rows FROM decision_log").fetchone()
    return counts if total == (others + sum(counts.values()),) else None


def approvals(connection: sqlite3.Connection, scope: str) -> dict[str, frozenset[str]] | None:
    """Return the approvals of a scope, by server; None if a row was changed."""
    by_server: defaultdict[str, set[str]] = defaultdict(set)
    query = "SELECT scope, server, identity, at, checksum FROM approvals WHERE scope = ?"
    for *row, checksum in connection.execute(query, (as_text(scope),)):
        if not is_intact(row, checksum):
            return None
        by_server[from_column(row[1])].add(row[2])
    return {server: frozenset(identities) for server, identities in by_server.items()}


def accepted(
    connection: sqlite3.Connection, scope: str, server: str, counts: RowCounts
) -> AcceptedTools | None:
    """Return what was accepted of one server; None if a row was changed or is missing."""
    by_tool: defaultdict[str, set[str]] = defaultdict(set)
    query = """
        SELECT scope, server, tool, meaning, fingerprint, definition, at, checksum
        FROM acceptances WHERE scope = ? AND server = ?
        """
    count = 0
    for *row, checksum in connection.execute(query, (as_text(scope), as_text(server))):
        if not is_intact(row, checksum):
            return None
        by_tool[from_column(row[2])].update(row[3:5])
        count += 1
    if count < counts.get((scope, server), 0):
        return None
    return {tool: frozenset(digests) for tool, digests in by_tool.items()}


def approve(
    connection: sqlite3.Connection, scope: str, approvals: Iterable[Approval], at: float
) -> list[ApprovalRecord]:
    """Returns those that were not kept already."""
    records = [ApprovalRecord(scope, approval, at) for approval in approvals]
    return [
        record for record in records if connection.execute(_APPROVE, _approved_row(record)).rowcount
    ]


def revoke(
    connection: sqlite3.Connection, scope: str, servers: Iterable[str]
) -> tuple[int, list[RevocationRecord]]:
    """Returns how many approvals there were, and of which servers."""
    query = "DELETE FROM approvals WHERE scope = ? AND server = ?"
    counts = {
        server: connection.execute(query, (as_text(scope), as_text(server))).rowcount
        for server in dict.fromkeys(servers)
    }
    return sum(counts.values()), [
        RevocationRecord(scope, server) for server in counts if counts[server]
    ]


def accept(
    connection: sqlite3.Connection,
    scope: str,
    found: Sequence[Acceptance],
    at: float,
    *,
    if_new: bool,
) -> list[AcceptanceRecord]:
    """Keep acceptances, and return those; with `if_new` only of tools of which none is kept.

    With `if_new` nothing is kept after a loss that the owner has not acknowledged: what was not
    seen before cannot be told from what was lost.
    """
    if if_new and lost_at(connection, scope) is not None:
        return []
    tools = _known_tools(connection, scope, found) if if_new else frozenset()
    records = [
        AcceptanceRecord(scope, acceptance, at)
        for acceptance in found
        if (acceptance.server, acceptance.tool) not in tools
    ]
    connection.executemany(_ACCEPT, map(_accepted_row, records))
    return records


def history(connection: sqlite3.Connection, scope: str, server: str) -> tuple[Acceptance, ...]:
    query = """
        SELECT tool, meaning, fingerprint, definition FROM acceptances
        WHERE scope = ? AND server = ? ORDER BY id
        """
    rows = connection.execute(query, (as_text(scope), as_text(server)))
    return tuple(Acceptance(server, from_column(tool), *rest) for tool, *rest in rows)


def lost_at(connection: sqlite3.Connection, scope: str) -> float | None:
    query = "SELECT at, acknowledged FROM losses WHERE scope IN (?, ?) ORDER BY scope = ? LIMIT 1"
    names = as_text(scope), EVERY_SCOPE, EVERY_SCOPE
    at, acknowledged = connection.execute(query, names).fetchone() or (None, None)
    return at if acknowledged is None else None


def acknowledge(connection: sqlite3.Connection, scope: str, at: float) -> list[LossRecord]:
    """Returns what was lost and is acknowledged now, if anything was."""
    lost = lost_at(connection, scope)
    if lost is None:
        return []
    loss = LossRecord(scope, lost, at)
    connection.execute(_LOSE, _loss_row(loss))
    return [loss]


class StoredDecisions(Struct):
    """All decisions that the database holds."""

    effective: EffectiveDecisions
    number: int
    """The number of the newest decision."""
    is_sound: bool
    """True if no row was changed, and none is missing."""


def newest(connection: sqlite3.Connection) -> int:
    """The number of the newest decision; 0 if there is none, or that is damaged."""
    row = connection.execute("SELECT number FROM decision_log").fetchone()
    return row[0] if row and isinstance(row[0], int) else 0


def set_newest(connection: sqlite3.Connection, number: int) -> None:
    # Programs before find an empty checksum, and write their second copy anew.
    connection.execute(
        """
        INSERT OR REPLACE INTO decision_log (id, number, checksum, rows) VALUES (1, ?, '',
            (SELECT count(*) FROM approvals) + (SELECT count(*) FROM acceptances)
            + (SELECT count(*) FROM losses) + (SELECT count(*) FROM registered_servers)
            + (SELECT count(*) FROM switches))
        """,
        (number,),
    )


def stored(connection: sqlite3.Connection) -> StoredDecisions:
    """Read the decisions of all scopes; damaged rows are left out."""
    records: list[Record] = []
    damaged = 0
    for query, record_of in _HELD:
        for *row, checksum in connection.execute(query):
            if is_intact(row, checksum):
                records.append(record_of(*row))
            else:
                damaged += 1
    total = connection.execute("SELECT rows FROM decision_log").fetchone()
    is_sound = not damaged and total == (len(records),)
    return StoredDecisions(EffectiveDecisions.of(records), newest(connection), is_sound)


def records_of(connection: sqlite3.Connection, newer: NewerDecisions) -> list[Record] | None:
    """Write what a registry decided since, and return the records; None if it cannot be known."""
    query = f"{_ACCEPTED} ORDER BY id DESC LIMIT 1"
    last = next((_accepted(*row) for *row, _ in connection.execute(query)), None)
    if newest(connection) != newer.since or last != newer.last:
        return None
    decisions = EffectiveDecisions.of(
        record_of(*row)
        for query, record_of in _HELD_BESIDE
        for *row, _ in connection.execute(query)
    )
    now = newer.export.effective
    records = [*records_between(decisions, now)]
    for record in records:
        decisions.add(record)
    # Some void each other. The number rises by one for each, so the last one stands for these.
    void = newer.export.number - newer.since - len(records)
    if decisions != now or not records or not 0 <= void <= _MOST_VOID:
        return None
    update(connection, now)
    return records + records[-1:] * void


def replace(connection: sqlite3.Connection, effective: EffectiveDecisions) -> None:
    """Hold these decisions, and no others."""
    connection.execute("DELETE FROM acceptances")
    update(connection, effective)


def update(connection: sqlite3.Connection, effective: EffectiveDecisions) -> None:
    """Hold these acceptances, too, and of all else these decisions and no others."""
    for table in ("approvals", "losses"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - one of two words
    connection.executemany(_APPROVE, map(_approved_row, effective.approvals.values()))
    connection.executemany(_ACCEPT, map(_accepted_row, effective.acceptances.values()))
    connection.executemany(_LOSE, map(_loss_row, effective.losses.values()))
    server_tables.replace(connection, effective.servers.values(), effective.switches.values())


_APPROVE = """
    INSERT OR IGNORE INTO approvals (scope, server, identity, at, checksum) VALUES (?, ?, ?, ?, ?)
    """
_ACCEPT = """
    INSERT OR REPLACE INTO acceptances
        (scope, server, tool, meaning, fingerprint, definition, at, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    """
_LOSE = """
    INSERT OR REPLACE INTO losses (scope, at, acknowledged, checksum) VALUES (?, ?, ?, ?)
    """


def _approved_row(record: ApprovalRecord) -> tuple[object, ...]:
    approval = record.approval
    row = as_text(record.scope), as_text(approval.server), approval.identity, float(record.at)
    return (*row, checksum_of(*row))


def _accepted_row(record: AcceptanceRecord) -> tuple[object, ...]:
    acceptance = record.acceptance
    names = as_text(record.scope), as_text(acceptance.server), as_text(acceptance.tool)
    row = (
        *names,
        acceptance.meaning,
        acceptance.fingerprint,
        acceptance.definition,
        float(record.at),
    )
    return (*row, checksum_of(*row))


def _loss_row(loss: LossRecord) -> tuple[object, ...]:
    row = as_text(loss.scope), float(loss.at), loss.acknowledged
    return (*row, checksum_of(*row))


def _approved(scope: str, server: str, identity: str, at: float) -> ApprovalRecord:
    return ApprovalRecord(from_column(scope), Approval(from_column(server), identity), at)


def _accepted(scope: str, server: str, tool: str, *rest: Any) -> AcceptanceRecord:
    *what, at = rest
    acceptance = Acceptance(from_column(server), from_column(tool), *what)
    return AcceptanceRecord(from_column(scope), acceptance, at)


def _loss(scope: str, at: float, acknowledged: float | None) -> LossRecord:
    return LossRecord(from_column(scope), at, acknowledged)


_ACCEPTED = """
    SELECT scope, server, tool, meaning, fingerprint, definition, at, checksum
    FROM acceptances NOT INDEXED
    """
_HELD_BESIDE: tuple[tuple[str, Callable[..., Record]], ...] = (
    (
        "SELECT scope, server, identity, at, checksum FROM approvals NOT INDEXED ORDER BY id",
        _approved,
    ),
    # That of every scope first: it makes those before it void.
    (
        "SELECT scope, at, acknowledged, checksum FROM losses NOT INDEXED ORDER BY scope <> '*'",
        _loss,
    ),
    (server_tables.HELD_SERVERS, server_tables.registered),
    (server_tables.HELD_SWITCHES, server_tables.switched),
)
"""Queries for all decisions but acceptances, each with the function that reads a row."""
_HELD = (f"{_ACCEPTED} ORDER BY id", _accepted), *_HELD_BESIDE


def _known_tools(
    connection: sqlite3.Connection, scope: str, found: Sequence[Acceptance]
) -> frozenset[tuple[str, str]]:
    query = "SELECT DISTINCT tool FROM acceptances WHERE scope = ? AND server = ?"
    return frozenset(
        (server, from_column(tool))
        for server in {acceptance.server for acceptance in found}
        for (tool,) in connection.execute(query, (as_text(scope), as_text(server)))
    )
