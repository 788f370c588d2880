"""Snapshots in SQLite: settings as text, and each server with its tools as one row."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping

from discovery_engine.registry.codec import PartRow
from discovery_engine.registry.sqlite import listing_tables
from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.registry.stored_snapshot import (
    ChangedServers,
    StoredSnapshot,
    decided_text,
)
from discovery_engine.tools.model import ServerName

SCOPES_KEPT = 50  # configurations; the ones least recently saved are dropped first


def rows(connection: sqlite3.Connection, scope: str) -> StoredSnapshot | None:
    query = "SELECT id, settings, revision, saved, decided FROM scopes WHERE name = ?"
    row = connection.execute(query, (as_text(scope),)).fetchone()
    if row is None:
        return None
    key, settings, revision, saved, decided = row
    return StoredSnapshot(settings, revision, saved, decided, listing_tables.rows(connection, key))


def settings(connection: sqlite3.Connection, scope: str) -> str | None:
    query = "SELECT settings FROM scopes WHERE name = ?"
    row = connection.execute(query, (as_text(scope),)).fetchone()
    return row[0] if row else None


def last_save(connection: sqlite3.Connection, scope: str) -> int | None:
    """The number of the last save of a scope; None if there was none."""
    query = "SELECT saved FROM scopes WHERE name = ?"
    row = connection.execute(query, (as_text(scope),)).fetchone()
    return row[0] if row else None


def scopes(connection: sqlite3.Connection) -> list[str]:
    """Those in which anything is kept but decisions."""
    query = """
        SELECT name FROM scopes UNION SELECT scope FROM presets UNION SELECT scope
        FROM agent_requests UNION SELECT scope FROM refresh_jobs UNION SELECT scope FROM webhooks
        """
    return [from_column(name) for (name,) in connection.execute(query)]


def row_of(connection: sqlite3.Connection, scope: str, server: str) -> PartRow | None:
    """What is saved of one server; None if it was never listed."""
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM servers JOIN listings ON listings.server = servers.id
        JOIN scopes ON scopes.id = servers.scope WHERE scopes.name = ? AND servers.name = ?
        """
    row = connection.execute(query, (as_text(scope), as_text(server))).fetchone()
    return PartRow(*row) if row else None


def save_settings(
    connection: sqlite3.Connection,
    scope: str,
    settings: str,
    servers: Collection[ServerName],
    *,
    keep_others: bool,
) -> ChangedServers:
    """Returns which servers are new, and which are gone."""
    # Where nothing changed nothing is written: a start with the same file costs no disk.
    connection.execute(
        """
        INSERT INTO scopes (name, settings, saved)
        VALUES (?, ?, (SELECT coalesce(max(saved), 0) + 1 FROM scopes))
        ON CONFLICT (name) DO UPDATE
        SET settings = excluded.settings, saved = excluded.saved, decided = NULL
        WHERE settings <> excluded.settings
        """,
        (as_text(scope), settings),
    )
    connection.execute(
        """
        DELETE FROM scopes
        WHERE id NOT IN (SELECT id FROM scopes ORDER BY saved DESC LIMIT ?)
        """,
        (SCOPES_KEPT,),
    )
    gone: list[str] = []
    if not keep_others:
        known, named = _servers(connection, scope), frozenset(servers)
        others = [name for _, name in known if name not in named]
        gone = drop(connection, scope, _without_jobs(connection, scope, others))
    added = add_servers(connection, scope, servers)
    return ChangedServers(added, gone)


def drop(connection: sqlite3.Connection, scope: str, servers: Iterable[ServerName]) -> list[str]:
    """Drop servers with what they listed; returns those that were saved."""
    query = """
        DELETE FROM servers
        WHERE name = ? AND scope = (SELECT id FROM scopes WHERE name = ?)
        """
    return [
        name
        for name in servers
        if connection.execute(query, (as_text(name), as_text(scope))).rowcount
    ]


def add_servers(
    connection: sqlite3.Connection, scope: str, servers: Iterable[ServerName]
) -> list[str]:
    """Returns those that are new."""
    known = {name for _, name in _servers(connection, scope)}
    new = [name for name in dict.fromkeys(servers) if name not in known]
    query = "INSERT INTO servers (scope, name) SELECT id, ? FROM scopes WHERE name = ?"
    connection.executemany(query, [(as_text(name), as_text(scope)) for name in new])
    return [*new]


def save_parts(
    connection: sqlite3.Connection,
    scope: str,
    parts: Mapping[ServerName, PartRow],
    revision: int,
    decided: int | None,
) -> None:
    query = """
        SELECT servers.id FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.name = ? AND servers.name = ?
        """
    for name, row in parts.items():
        for (key,) in connection.execute(query, (as_text(scope), as_text(name))).fetchall():
            listing_tables.save(connection, key, row)
    connection.execute(
        """
        UPDATE scopes SET
            revision = max(CAST(revision AS INTEGER), ?),
            saved = (SELECT max(saved) + 1 FROM scopes),
            decided = ?
        WHERE name = ?
        """,
        (revision, decided_text(decided), as_text(scope)),
    )


def mark_saved(connection: sqlite3.Connection, scope: str, server: str) -> None:
    """Note for other processes that this one has just saved what a server listed."""
    connection.execute(
        """
        UPDATE servers SET saved = (SELECT saved FROM scopes WHERE id = servers.scope)
        WHERE name = ? AND scope = (SELECT id FROM scopes WHERE name = ?)
        """,
        (as_text(server), as_text(scope)),
    )


def servers_since(connection: sqlite3.Connection, scope: str, save: int) -> list[ServerName]:
    """The servers whose listings were saved after another save."""
    query = """
        SELECT servers.name FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE servers.saved > ? AND scopes.name = ?
        """
    rows = connection.execute(query, (save, as_text(scope)))
    return [ServerName(from_column(name)) for (name,) in rows]


def newest_listing(connection: sqlite3.Connection) -> int:
    """Something else after each listing that was saved, in any scope."""
    [newest] = connection.execute("SELECT coalesce(max(saved), 0) FROM servers").fetchone()
    return int(newest)


def forget(
    connection: sqlite3.Connection, scope: str, servers: frozenset[ServerName] | None
) -> int:
    known = _servers(connection, scope)
    keys = [key for key, name in known if servers is None or name in servers]
    connection.executemany("DELETE FROM uses WHERE server = ?", [(key,) for key in keys])
    return listing_tables.forget(connection, keys)


def _without_jobs(
    connection: sqlite3.Connection, scope: str, servers: Iterable[ServerName]
) -> list[ServerName]:
    query = "SELECT 1 FROM refresh_jobs WHERE scope = ? AND server = ?"
    return [
        name
        for name in servers
        if not connection.execute(query, (as_text(scope), as_text(name))).fetchone()
    ]


def _servers(connection: sqlite3.Connection, scope: str) -> list[tuple[int, ServerName]]:
    query = """
        SELECT servers.id, servers.name FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.name = ?
        """
    rows: Iterator[tuple[int, str | bytes]] = connection.execute(query, (as_text(scope),))
    return [(key, ServerName(from_column(name))) for key, name in rows]
