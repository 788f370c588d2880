"""Snapshots in PostgreSQL: settings as text, and each server with its tools as one row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import astuple

from discovery_engine.registry.codec import PartRow
from discovery_engine.registry.postgres.saved_listings import SaveMark
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.stored_snapshot import (
    ChangedServers,
    StoredSnapshot,
    decided_text,
)
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.registry.postgres.timed_connection import TimedConnection

SCOPES_KEPT = 1000  # configurations; the ones least recently saved are dropped first
_SERVERS_AT_ONCE = 100  # that are read with their tools: a few MB
_COLUMNS = "part, names, upstream_names, verdicts, judged, sources, digest, offerings"
_FROM = "FROM discovery.servers JOIN discovery.listings ON listings.server = servers.id"
_OF_SERVER = f"""
    {_FROM} WHERE servers.scope = (SELECT id FROM discovery.scopes WHERE key = %s)
        AND servers.key = %s
    """  # noqa: S608 - made of constants
_LISTINGS = f"SELECT servers.name, servers.id, servers.saved, {_COLUMNS} {_FROM}"

SaveMarks: TypeAlias = Mapping[ServerName, SaveMark]


def load(connection: TimedConnection, scope: str) -> tuple[StoredSnapshot, SaveMarks] | None:
    query = "SELECT id, settings, revision, saved, decided FROM discovery.scopes WHERE key = %s"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    if row is None:
        return None
    key, settings, revision, saved, decided = row
    query = f"{_LISTINGS} WHERE scope = %s ORDER BY servers.id"
    parts, marks = _marked(connection.rows(query, (key,), at_once=_SERVERS_AT_ONCE))
    return StoredSnapshot(settings, revision, saved, decided, parts), marks


def settings(connection: Connection, scope: str) -> str | None:
    query = "SELECT settings FROM discovery.scopes WHERE key = %s"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row else None


def scopes(connection: Connection) -> list[str]:
    """Those in which anything is kept but decisions."""
    query = """
        SELECT name FROM discovery.scopes UNION SELECT scope FROM discovery.presets
        UNION SELECT scope FROM discovery.agent_requests
        UNION SELECT scope FROM discovery.refresh_jobs UNION SELECT scope FROM discovery.webhooks
        """
    return [from_column(name) for (name,) in connection.execute(query)]


def locked_save(connection: Connection, scope: str) -> int | None:
    """The number of the last save of a scope, locked until the end of the transaction."""
    query = "SELECT saved FROM discovery.scopes WHERE key = %s FOR UPDATE"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row else None


def row_of(connection: Connection, scope: str, server: str) -> PartRow | None:
    """What is saved of one server; None if it was never listed."""
    row = connection.execute(
        f"SELECT {_COLUMNS} {_OF_SERVER}",
        (key_of(scope), key_of(server)),
    ).fetchone()
    return PartRow(*row) if row else None


def compared_row(
    connection: Connection, scope: str, server: str
) -> tuple[SaveMark, PartRow] | None:
    """As `row_of`, with its mark and without the sources of its tools.

    These are most of it, and the digest stands for them in a comparison.
    """
    columns = _COLUMNS.replace("sources", "''::bytea")
    row = connection.execute(
        f"SELECT servers.id, servers.saved, {columns} {_OF_SERVER}",
        (key_of(scope), key_of(server)),
    ).fetchone()
    return (SaveMark(*row[:2]), PartRow(*row[2:])) if row else None


def save_settings(connection: Connection, scope: str, settings: str) -> None:
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
        (SCOPES_KEPT,),
    )


def change_servers(
    connection: Connection,
    scope: str,
    servers: Collection[ServerName],
    *,
    keep_others: bool,
    most: int,
) -> tuple[ChangedServers, bool]:
    """Add the servers that are new, and drop others without a job, unless all are kept.

    No more than `most` are added, and no more dropped; returns which, and whether there are more.
    """
    known = _servers(connection, scope)
    new = [name for name in dict.fromkeys(servers) if name not in known]
    others = () if keep_others else known.keys() - servers
    gone = sorted(others - _with_jobs(connection, scope, others)) if others else []
    dropped = drop(connection, scope, gone[:most])
    added = add_servers(connection, scope, new[:most])
    return ChangedServers(added, dropped), max(len(new), len(gone)) > most


def drop(connection: Connection, scope: str, servers: Iterable[ServerName]) -> list[str]:
    """Drop servers with what they listed; returns those that were saved."""
    query = """
        DELETE FROM discovery.servers USING discovery.scopes
        WHERE scopes.id = servers.scope AND scopes.key = %s AND servers.key = ANY(%s)
        RETURNING servers.name
        """
    rows = connection.execute(query, (key_of(scope), [*map(key_of, servers)]))
    return [from_column(name) for (name,) in rows]


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
) -> SaveMarks:
    """Returns the marks under which they are saved now."""
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
        return {}
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE discovery.servers SET part = %s, saved = %s WHERE id = %s",
            [(row.part, found[0], server) for server, row in rows],
        )
        cursor.executemany(_SAVE, [(server, *astuple(row)[1:]) for server, row in rows])
    return {name: SaveMark(known[name], found[0]) for name in parts if name in known}


def parts_since(
    connection: TimedConnection, scope: str, save: int
) -> tuple[int, list[PartRow], SaveMarks]:
    """The number of the last save of a scope, and the parts that were saved after another."""
    query = "SELECT id, saved FROM discovery.scopes WHERE key = %s"
    key, saved = connection.execute(query, (key_of(scope),)).fetchone() or (0, save)
    if saved == save:
        return save, [], {}
    query = f"{_LISTINGS} WHERE scope = %s AND saved > %s ORDER BY servers.id"
    rows = connection.rows(query, (key, save), at_once=_SERVERS_AT_ONCE)
    return saved, *_marked(rows)


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


def _with_jobs(
    connection: Connection, scope: str, servers: Collection[ServerName]
) -> frozenset[ServerName]:
    # By their keys: joined by names, 50,000 took more than the 5 s of an operation until the
    # database had statistics of them.
    query = "SELECT server FROM discovery.refresh_jobs WHERE key = ANY(%s)"
    rows = connection.execute(query, ([key_of(scope, name) for name in servers],))
    return frozenset(ServerName(from_column(name)) for (name,) in rows)


def _marked(rows: Iterable[tuple[Any, ...]]) -> tuple[list[PartRow], SaveMarks]:
    parts: list[PartRow] = []
    marks: dict[ServerName, SaveMark] = {}
    for name, server, save, *part in rows:
        parts.append(PartRow(*part))
        marks[ServerName(from_column(name))] = SaveMark(server, save)
    return parts, marks


def _servers(connection: Connection, scope: str) -> dict[ServerName, int]:
    query = """
        SELECT servers.name, servers.id FROM discovery.servers
        JOIN discovery.scopes ON scopes.id = servers.scope WHERE scopes.key = %s
        """
    rows = connection.execute(query, (key_of(scope),))
    return {ServerName(from_column(name)): key for name, key in rows}
