"""Snapshots in PostgreSQL: settings as text, and each server with its tools as one row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from discovery_engine.registry.codec import PartRow
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.stored_snapshot import (
    ChangedServers,
    StoredSnapshot,
    decided_text,
)
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

_SCOPES_KEPT = 1000  # configurations; the ones least recently saved are dropped first


def load(connection: Connection, scope: str) -> StoredSnapshot | None:
    query = "SELECT id, settings, revision, saved, decided FROM discovery.scopes WHERE key = %s"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    if row is None:
        return None
    key, settings, revision, saved, decided = row
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM discovery.servers JOIN discovery.listings ON listings.server = servers.id
        WHERE scope = %s ORDER BY servers.id
        """
    parts = [PartRow(*part) for part in connection.execute(query, (key,))]
    return StoredSnapshot(settings, revision, saved, decided, parts)


def settings(connection: Connection, scope: str) -> str | None:
    query = "SELECT settings FROM discovery.scopes WHERE key = %s"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row else None


def scopes(connection: Connection) -> list[str]:
    """Those in which anything is kept but decisions."""
    query = """
        SELECT name FROM discovery.scopes UNION SELECT scope FROM discovery.presets
        UNION SELECT scope FROM discovery.agent_requests
        """
    return [from_column(name) for (name,) in connection.execute(query)]


def locked_save(connection: Connection, scope: str) -> int | None:
    """The number of the last save of a scope, locked until the end of the transaction."""
    query = "SELECT saved FROM discovery.scopes WHERE key = %s FOR UPDATE"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row else None


def present_save(connection: Connection, scope: str) -> tuple[int | None, bool]:
    """As `locked_save`, of a scope that is locked; and whether a restricted role may see of it."""
    query = """
        SELECT saved, EXISTS (
            SELECT FROM discovery.role_principals WHERE role_principals.scope_key = scopes.key
        ) FROM discovery.scopes WHERE key = %s
        """
    return connection.execute(query, (key_of(scope),)).fetchone() or (None, False)


def row_of(connection: Connection, scope: str, server: str) -> PartRow | None:
    """What is saved of one server; None if it was never listed."""
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM discovery.servers JOIN discovery.listings ON listings.server = servers.id
        JOIN discovery.scopes ON scopes.id = servers.scope
        WHERE scopes.key = %s AND servers.key = %s
        """
    row = connection.execute(query, (key_of(scope), key_of(server))).fetchone()
    return PartRow(*row) if row else None


def save_settings(
    connection: Connection,
    scope: str,
    settings: str,
    servers: Collection[ServerName],
    *,
    keep_others: bool,
) -> ChangedServers:
    """Returns which servers are new, and which are gone."""
    # Where nothing changed nothing is written, and no other gateway has anything to fetch.
    connection.execute(
        """
        INSERT INTO discovery.scopes (key, name, settings, saved)
        VALUES (%s, %s, %s, nextval('discovery.saves'))
        ON CONFLICT (key) DO UPDATE
        SET settings = excluded.settings, saved = excluded.saved, decided = NULL
        WHERE scopes.settings <> excluded.settings
        """,
        (key_of(scope), to_column(scope), settings),
    )
    connection.execute(
        """
        DELETE FROM discovery.scopes WHERE id IN (
            SELECT id FROM discovery.scopes ORDER BY saved DESC OFFSET %s FOR UPDATE SKIP LOCKED
        )
        """,
        (_SCOPES_KEPT,),
    )
    gone: list[tuple[str]] = []
    if not keep_others:
        gone = connection.execute(
            """
            DELETE FROM discovery.servers USING discovery.scopes
            WHERE scopes.id = servers.scope AND scopes.key = %s AND servers.key <> ALL(%s)
            RETURNING servers.name
            """,
            (key_of(scope), [key_of(name) for name in servers]),
        ).fetchall()
    added = add_servers(connection, scope, servers)
    return ChangedServers(added, [from_column(name) for (name,) in gone])


def add_servers(connection: Connection, scope: str, servers: Iterable[ServerName]) -> list[str]:
    """Returns those that are new."""
    names = tuple(dict.fromkeys(servers))
    new = connection.execute(
        """
        INSERT INTO discovery.servers (scope, key, name)
        SELECT scopes.id, new.key, new.name
        FROM discovery.scopes, unnest(%s::bytea[], %s::text[]) WITH ORDINALITY AS new(key, name, at)
        WHERE scopes.key = %s ORDER BY new.at
        ON CONFLICT (scope, key) DO NOTHING RETURNING name
        """,
        ([*map(key_of, names)], [*map(to_column, names)], key_of(scope)),
    )
    return [from_column(name) for (name,) in new]


def save_parts(
    connection: Connection,
    scope: str,
    parts: Mapping[ServerName, PartRow],
    revision: int,
    decided: int | None,
) -> None:
    known = _servers(connection, scope)
    rows = [(known[name], row) for name, row in parts.items() if name in known]
    query = """
        UPDATE discovery.scopes
        SET revision = greatest(revision, %s), saved = nextval('discovery.saves'), decided = %s
        WHERE key = %s RETURNING saved
        """
    judged = decided_text(decided)
    found = connection.execute(query, (revision, judged, key_of(scope))).fetchone()
    if found is None:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE discovery.servers SET part = %s, saved = %s WHERE id = %s",
            [(row.part, found[0], server) for server, row in rows],
        )
        cursor.executemany(_SAVE, [(server, *astuple(row)[1:]) for server, row in rows])


def parts_since(connection: Connection, scope: str, save: int) -> tuple[int, list[PartRow]]:
    """The number of the last save of a scope, and the parts that were saved after another."""
    query = "SELECT id, saved FROM discovery.scopes WHERE key = %s"
    key, saved = connection.execute(query, (key_of(scope),)).fetchone() or (0, save)
    if saved == save:
        return save, []
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM discovery.servers JOIN discovery.listings ON listings.server = servers.id
        WHERE scope = %s AND saved > %s ORDER BY servers.id
        """
    return saved, [PartRow(*part) for part in connection.execute(query, (key, save))]


def servers_since(connection: Connection, scope: str, save: int) -> list[ServerName]:
    """The servers that were saved after that save."""
    query = """
        SELECT servers.name FROM discovery.servers
        JOIN discovery.scopes ON scopes.id = servers.scope
        WHERE scopes.key = %s AND servers.saved > %s
        """
    rows = connection.execute(query, (key_of(scope), save))
    return [ServerName(from_column(name)) for (name,) in rows]


def saves(connection: Connection) -> tuple[int, int]:
    """Something else after each save of any scope.

    Not the highest number: of two scopes, the one with the lower may be committed last.
    """
    query = "SELECT count(*), coalesce(sum(saved), 0) FROM discovery.scopes"
    return connection.execute(query).fetchone() or (0, 0)


def forget(connection: Connection, scope: str, servers: Collection[ServerName] | None) -> int:
    """Drop what servers listed, of all with None; returns how many tools that were."""
    known = _servers(connection, scope)
    keys = [key for name, key in known.items() if servers is None or name in servers]
    connection.execute("DELETE FROM discovery.uses WHERE server = ANY(%s)", (keys,))
    connection.execute("UPDATE discovery.servers SET part = NULL WHERE id = ANY(%s)", (keys,))
    query = "DELETE FROM discovery.listings WHERE server = ANY(%s) RETURNING upstream_names"
    return sum(len(json.loads(names)) for (names,) in connection.execute(query, (keys,)))


_SAVE = """
    INSERT INTO discovery.listings
        (server, names, upstream_names, verdicts, judged, sources, digest, offerings)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (server) DO UPDATE SET
        names = excluded.names, upstream_names = excluded.upstream_names,
        verdicts = excluded.verdicts, judged = excluded.judged, sources = excluded.sources,
        digest = excluded.digest, offerings = excluded.offerings
    """


def _servers(connection: Connection, scope: str) -> dict[ServerName, int]:
    query = """
        SELECT servers.name, servers.id FROM discovery.servers
        JOIN discovery.scopes ON scopes.id = servers.scope WHERE scopes.key = %s
        """
    rows = connection.execute(query, (key_of(scope),))
    return {ServerName(from_column(name)): key for name, key in rows}
