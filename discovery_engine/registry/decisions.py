"""The owner's decisions in SQLite; `store.Store` says what is promised of them."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence

from discovery_engine.registry.encoding import as_text, from_column
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions


def decisions(connection: sqlite3.Connection, scope: str) -> Decisions:
    approvals: defaultdict[str, set[str]] = defaultdict(set)
    query = "SELECT server, identity FROM approvals WHERE scope = ?"
    for server, identity in connection.execute(query, (as_text(scope),)):
        approvals[from_column(server)].add(identity)
    accepted: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    query = "SELECT server, tool, meaning, fingerprint FROM acceptances WHERE scope = ?"
    for server, tool, *digests in connection.execute(query, (as_text(scope),)):
        accepted[from_column(server)][from_column(tool)].update(digests)
    return Decisions(
        {server: frozenset(identities) for server, identities in approvals.items()},
        {
            server: {tool: frozenset(digests) for tool, digests in tools.items()}
            for server, tools in accepted.items()
        },
    )


def approve(
    connection: sqlite3.Connection, scope: str, approvals: Iterable[Approval], at: float
) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO approvals (scope, server, identity, at) VALUES (?, ?, ?, ?)",
        [(as_text(scope), as_text(one.server), one.identity, at) for one in approvals],
    )


def revoke(connection: sqlite3.Connection, scope: str, servers: Iterable[str]) -> int:
    rows = [(as_text(scope), as_text(server)) for server in servers]
    query = "DELETE FROM approvals WHERE scope = ? AND server = ?"
    return connection.executemany(query, rows).rowcount if rows else 0


def accept(
    connection: sqlite3.Connection,
    scope: str,
    found: Sequence[Acceptance],
    at: float,
    *,
    if_new: bool,
) -> None:
    """Keep acceptances; with `if_new` only of tools of which none is kept."""
    known = _known_tools(connection, scope, found) if if_new else frozenset()
    rows = [_row(scope, one, at) for one in found if (one.server, one.tool) not in known]
    connection.executemany(
        """
        INSERT OR REPLACE INTO acceptances
            (scope, server, tool, meaning, fingerprint, definition, at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        rows,
    )


def history(connection: sqlite3.Connection, scope: str, server: str) -> tuple[Acceptance, ...]:
    query = """
        SELECT tool, meaning, fingerprint, definition FROM acceptances
        WHERE scope = ? AND server = ? ORDER BY id
        """
    rows = connection.execute(query, (as_text(scope), as_text(server)))
    return tuple(Acceptance(server, from_column(tool), *rest) for tool, *rest in rows)


def _known_tools(
    connection: sqlite3.Connection, scope: str, found: Sequence[Acceptance]
) -> frozenset[tuple[str, str]]:
    query = "SELECT DISTINCT tool FROM acceptances WHERE scope = ? AND server = ?"
    return frozenset(
        (server, from_column(tool))
        for server in {one.server for one in found}
        for (tool,) in connection.execute(query, (as_text(scope), as_text(server)))
    )


def _row(scope: str, one: Acceptance, at: float) -> tuple[object, ...]:
    names = as_text(scope), as_text(one.server), as_text(one.tool)
    return (*names, one.meaning, one.fingerprint, one.definition, at)
