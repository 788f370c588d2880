"""Snapshots: settings as text, and each server with its tools as one row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import astuple

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.store.codec import PartRow, part_to_row, with_failure
from discovery_engine.store.saved_listings import SaveMark
from discovery_engine.store.snapshot import StoredSnapshot, decided_text
from discovery_engine.store.stored_text import from_column, key_of, to_column
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.store.refresh_job import RefreshJob
    from discovery_engine.store.statements import Connection

_NAMES_AT_ONCE = 500  # names looked up in one statement; for more, the whole scope is read
_SERVERS_AT_ONCE = 100  # servers read at a time with their tools: a few MB
_COLUMNS = "part, names, upstream_names, verdicts, judged, sources, digest, offerings"
_FROM = "FROM servers JOIN listings ON listings.server = servers.id"
_OF_SERVER = f"""
    {_FROM} WHERE servers.scope = (SELECT id FROM scopes WHERE key = ?) AND servers.key = ?
    """  # noqa: S608 - constants
_LISTINGS = f"SELECT servers.name, servers.id, servers.saved, {_COLUMNS} {_FROM}"
_SAVE = """
    INSERT INTO listings
        (server, names, upstream_names, verdicts, judged, sources, digest, offerings)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (server) DO UPDATE SET
        names = excluded.names, upstream_names = excluded.upstream_names,
        verdicts = excluded.verdicts, judged = excluded.judged, sources = excluded.sources,
        digest = excluded.digest, offerings = excluded.offerings
    """

SaveMarks: TypeAlias = Mapping[ServerName, SaveMark]


def load(connection: Connection, scope: str) -> tuple[StoredSnapshot, SaveMarks] | None:
    statement = "SELECT id, settings, revision, saved, decided FROM scopes WHERE key = ?"
    row = connection.execute(statement, (key_of(scope),)).fetchone()
    if row is None:
        return None
    key, settings, revision, saved, decided = row
    statement = f"{_LISTINGS} WHERE scope = ? ORDER BY servers.id"
    parts, marks = _marked(connection.rows(statement, (key,), at_once=_SERVERS_AT_ONCE))
    return StoredSnapshot(settings, revision, saved, decided, parts), marks


def settings(connection: Connection, scope: str) -> str | None:
    statement = "SELECT settings FROM scopes WHERE key = ?"
    row = connection.execute(statement, (key_of(scope),)).fetchone()
    return row[0] if row else None


def locked_save(connection: Connection, scope: str) -> int | None:
    """Return the number of the last save of a scope, locked for a transaction that writes."""
    statement = "SELECT saved FROM scopes WHERE key = ?"
    row = connection.execute(statement + connection.for_update, (key_of(scope),)).fetchone()
    return row[0] if row else None


def row_of(connection: Connection, scope: str, server: str) -> PartRow | None:
    """Return the saved row of one server; None if it was never listed."""
    statement = f"SELECT {_COLUMNS} {_OF_SERVER}"
    row = connection.execute(statement, (key_of(scope), key_of(server))).fetchone()
    return PartRow(*row) if row else None


def compared_row(
    connection: Connection, scope: str, server: str
) -> tuple[SaveMark, PartRow] | None:
    """Return the row of a server with its mark and without its tools' sources; see `row_of`.

    The sources are most of a row; comparing their digest is enough.
    """
    columns = _COLUMNS.replace("sources", "?")
    statement = f"SELECT servers.id, servers.saved, {columns} {_OF_SERVER}"
    row = connection.execute(statement, (b"", key_of(scope), key_of(server))).fetchone()
    return (SaveMark(*row[:2]), PartRow(*row[2:])) if row else None


def save_settings(connection: Connection, scope: str, settings: str, most_scopes: int) -> None:
    """Save settings; drop the least recently saved scopes beyond `most_scopes`."""
    # Unchanged settings are not written: a start with the same file costs no disk.
    connection.execute(
        f"""
        INSERT INTO scopes (key, name, settings, saved) VALUES (?, ?, ?, {connection.next_save})
        ON CONFLICT (key) DO UPDATE
        SET settings = excluded.settings, saved = excluded.saved, decided = NULL
        WHERE scopes.settings <> excluded.settings
        """,  # noqa: S608 - a constant
        (key_of(scope), to_column(scope), settings),
    )
    connection.execute(
        f"""
        DELETE FROM scopes WHERE id IN (
            SELECT id FROM scopes ORDER BY saved DESC LIMIT 1000000 OFFSET ?{connection.skip_locked}
        )
        """,  # noqa: S608 - a constant
        (most_scopes,),
    )


def servers(
    connection: Connection, scope: str, names: Collection[ServerName] | None = None
) -> dict[ServerName, int]:
    """Return the ids of a scope's servers by name; only of those in `names`, unless it is None.

    So saving the listing of one of 10,000 servers does not read them all.
    """
    statement = """
        SELECT servers.name, servers.id FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.key = ?
        """
    if names is None or len(names) > _NAMES_AT_ONCE:
        rows = connection.execute(statement, (key_of(scope),)).fetchall()
    else:
        marks = ", ".join("?" * len(names)) or "NULL"
        statement += f" AND servers.key IN ({marks})"
        rows = connection.execute(statement, (key_of(scope), *map(key_of, names))).fetchall()
    return {ServerName(from_column(name)): key for name, key in rows}


def drop(connection: Connection, scope: str, names: Iterable[ServerName]) -> list[ServerName]:
    """Drop servers with their listings; return the names that were saved."""
    names = tuple(names)
    ids = servers(connection, scope, names)
    gone = [name for name in names if name in ids]
    connection.executemany("DELETE FROM servers WHERE id = ?", [(ids[name],) for name in gone])
    return gone


def add_servers(
    connection: Connection, scope: str, names: Iterable[ServerName]
) -> list[ServerName]:
    """Add servers that the scope does not have; return their names."""
    names = dict.fromkeys(names)
    ids = servers(connection, scope, names)
    new = [name for name in names if name not in ids]
    connection.executemany(
        """
        INSERT INTO servers (scope, key, name) SELECT id, ?, ? FROM scopes WHERE key = ?
        ON CONFLICT (scope, key) DO NOTHING
        """,
        [(key_of(name), to_column(name), key_of(scope)) for name in new],
    )
    return new


def save_parts(
    connection: Connection,
    scope: str,
    parts: Mapping[ServerName, PartRow],
    revision: int,
    decided: int | None,
    *,
    news: Collection[ServerName],
) -> SaveMarks:
    """Save listings of servers, and return the new marks of those in `news`.

    Other processes fetch the listings of `news` only. Nothing is saved in an unknown scope.
    """
    statement = "SELECT revision FROM scopes WHERE key = ?"
    row = connection.execute(statement, (key_of(scope),)).fetchone()
    if row is None:
        return {}
    ids = servers(connection, scope, parts)
    rows = [(ids[name], row) for name, row in parts.items() if name in ids]
    connection.executemany(
        "UPDATE servers SET part = ? WHERE id = ?", [(row.part, server) for server, row in rows]
    )
    connection.executemany(_SAVE, [(server, *astuple(row)[1:]) for server, row in rows])
    newest = max(row[0], revision) if isinstance(row[0], int) else revision  # else it is damaged
    statement = f"""
        UPDATE scopes SET revision = ?, saved = {connection.next_save}, decided = ?
        WHERE key = ? RETURNING saved
        """  # noqa: S608 - a constant
    values = newest, decided_text(decided), key_of(scope)
    [saved] = connection.execute(statement, values).fetchone()
    named = {name: ids[name] for name in news if name in ids}
    connection.executemany(
        "UPDATE servers SET saved = ? WHERE id = ?", [(saved, key) for key in named.values()]
    )
    return {name: SaveMark(key, saved) for name, key in named.items()}


def note_failure(connection: Connection, job: RefreshJob) -> bool:
    """Save that a server cannot be listed, for other processes; return whether that is new.

    No-op for a server that is not saved. The verdicts on its listing stay in force.
    """
    failure = Failure(
        job.error_code,
        job.error_message,
        "",
        connection.now(),
        job.failing_since,
        is_of_worker=True,
    )
    row = row_of(connection, job.scope, job.server)
    new_row = with_failure(
        row or part_to_row(ServerPart(job.server, connection=job.connection)), failure
    )
    if new_row is None or not (ids := servers(connection, job.scope, [job.server])):
        return False
    statement = f"UPDATE scopes SET saved = {connection.next_save} WHERE key = ? RETURNING saved"  # noqa: S608 - a constant
    [saved] = connection.execute(statement, (key_of(job.scope),)).fetchone()
    [server] = ids.values()
    if row is None:
        connection.execute(_SAVE, (server, *astuple(new_row)[1:]))
    statement = "UPDATE servers SET part = ?, saved = ? WHERE id = ?"
    connection.execute(statement, (new_row.part, saved, server))
    return True


def parts_since(
    connection: Connection, scope: str, save: int
) -> tuple[int, list[PartRow], SaveMarks]:
    """Return the number of a scope's last save, and the parts and marks saved after `save`."""
    statement = "SELECT id, saved FROM scopes WHERE key = ?"
    key, saved = connection.execute(statement, (key_of(scope),)).fetchone() or (0, save)
    if saved == save:
        return save, [], {}
    statement = f"{_LISTINGS} WHERE scope = ? AND saved > ? ORDER BY servers.id"
    rows = connection.rows(statement, (key, save), at_once=_SERVERS_AT_ONCE)
    return saved, *_marked(rows)


def servers_since(connection: Connection, scope: str, save: int) -> list[ServerName]:
    """Return the servers whose listings were saved after the save with number `save`."""
    statement = """
        SELECT servers.name FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.key = ? AND servers.saved > ?
        """
    rows = connection.execute(statement, (key_of(scope), save))
    return [ServerName(from_column(name)) for (name,) in rows]


def saves(connection: Connection) -> tuple[int, int]:
    """Return a value that changes with every save of any scope.

    The highest number would not do: of two saves, the one with the lower may be committed last.
    """
    statement = "SELECT count(*), coalesce(sum(saved), 0) FROM scopes"
    count, total = connection.execute(statement).fetchone()
    return count, total


def newest_listing(connection: Connection) -> int:
    """Return a number that changes with every listing that others fetch, in any scope."""
    [newest] = connection.execute("SELECT coalesce(max(saved), 0) FROM servers").fetchone()
    return int(newest)


def forget(connection: Connection, scope: str, names: Collection[ServerName] | None) -> int:
    """Drop the listings of servers, of all if `names` is None; return their number of tools."""
    ids = servers(connection, scope, names)
    keys = [(key,) for key in ids.values()]
    statement = "SELECT upstream_names FROM listings WHERE server = ?"
    listed = (connection.execute(statement, key).fetchone() for key in keys)
    tools = sum(len(json.loads(row[0])) for row in listed if row)
    for statement in (
        "DELETE FROM uses WHERE server = ?",
        "UPDATE servers SET part = NULL WHERE id = ?",
        "DELETE FROM listings WHERE server = ?",
    ):
        connection.executemany(statement, keys)
    return tools


def _marked(rows: Iterable[Sequence[Any]]) -> tuple[list[PartRow], SaveMarks]:
    parts: list[PartRow] = []
    marks: dict[ServerName, SaveMark] = {}
    for name, server, save, *part in rows:
        parts.append(PartRow(*part))
        marks[ServerName(from_column(name))] = SaveMark(server, save)
    return parts, marks
