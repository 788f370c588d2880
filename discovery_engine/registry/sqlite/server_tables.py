"""Registered servers and switches in SQLite; `registry.protocols` has their contract.

Most registries have none, so what describes them is imported with the first row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.records import (
    RegistrationRecord,
    SwitchRecord,
    UnregistrationRecord,
)
from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.registry.sqlite.row_checksum import checksum_of, is_intact

if TYPE_CHECKING:
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitch

HELD_SERVERS = """
    SELECT scope, name, content, checksum FROM registered_servers NOT INDEXED ORDER BY id
    """
HELD_SWITCHES = """
    SELECT scope, server, is_wanted, at, checksum FROM switches NOT INDEXED ORDER BY id
    """


def servers(connection: sqlite3.Connection, scope: str) -> tuple[RegisteredServer, ...] | None:
    """In the order in which they were registered; None if a row was changed."""
    from discovery_engine.registry.server_records import RegisteredServer  # noqa: PLC0415

    query = """
        SELECT scope, name, content, checksum FROM registered_servers WHERE scope = ? ORDER BY id
        """
    entries = []
    for *row, checksum in connection.execute(query, (as_text(scope),)):
        if not is_intact(row, checksum):
            return None
        entries.append(RegisteredServer.from_text(row[2]))
    return tuple(entries)


def switches(connection: sqlite3.Connection, scope: str) -> dict[str, ServerSwitch] | None:
    """None if a row was changed."""
    from discovery_engine.registry.server_records import ServerSwitch  # noqa: PLC0415

    query = "SELECT scope, server, is_wanted, at, checksum FROM switches WHERE scope = ?"
    by_server = {}
    for *row, checksum in connection.execute(query, (as_text(scope),)):
        if not is_intact(row, checksum):
            return None
        by_server[from_column(row[1])] = ServerSwitch(bool(row[2]), row[3])
    return by_server


def mark(connection: sqlite3.Connection, scope: str) -> str:
    query = "SELECT mark FROM server_marks WHERE scope = ?"
    row = connection.execute(query, (as_text(scope),)).fetchone()
    return str(row[0]) if row else ""


def marks(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the marks of all scopes, by scope."""
    rows = connection.execute("SELECT scope, mark FROM server_marks")
    return {from_column(scope): mark for scope, mark in rows}


def set_marks(connection: sqlite3.Connection, new: Mapping[str, str]) -> None:
    """Have these marks, and no others."""
    connection.execute("DELETE FROM server_marks")
    rows = [(as_text(scope), mark) for scope, mark in new.items()]
    connection.executemany("INSERT INTO server_marks VALUES (?, ?)", rows)


def save(
    connection: sqlite3.Connection, scope: str, kept: Iterable[RegisteredServer]
) -> list[RegistrationRecord]:
    """Add servers, or put them in the place of those of their names."""
    records = [RegistrationRecord(scope, server) for server in kept]
    connection.executemany(_SAVE, map(server_row, records))
    _set_mark(connection, scope, is_changed=bool(records))
    return records


def delete(
    connection: sqlite3.Connection, scope: str, names: Iterable[str]
) -> tuple[int, list[UnregistrationRecord]]:
    """Returns how many there were, and which."""
    query = "DELETE FROM registered_servers WHERE scope = ? AND name = ?"
    gone = [
        name
        for name in dict.fromkeys(names)
        if connection.execute(query, (as_text(scope), as_text(name))).rowcount
    ]
    _set_mark(connection, scope, is_changed=bool(gone))
    return len(gone), [UnregistrationRecord(scope, name) for name in gone]


def switch(
    connection: sqlite3.Connection, scope: str, wanted: Mapping[str, bool | None], at: float
) -> list[SwitchRecord]:
    """Set switches, or drop them with None; returns those that were changed."""
    old_switches = switches(connection, scope) or {}
    records = [
        SwitchRecord(scope, server, is_wanted, at)
        for server, is_wanted in wanted.items()
        if is_wanted is not (old_switches[server].is_wanted if server in old_switches else None)
    ]
    for record in records:
        if record.is_wanted is None:
            query = "DELETE FROM switches WHERE scope = ? AND server = ?"
            connection.execute(query, (as_text(scope), as_text(record.server)))
        else:
            connection.execute(_SWITCH, switch_row(record))
    _set_mark(connection, scope, is_changed=bool(records))
    return records


def replace(
    connection: sqlite3.Connection,
    registrations: Iterable[RegistrationRecord],
    set_switches: Iterable[SwitchRecord],
) -> None:
    """Hold these servers and switches, and no others."""
    for table in ("registered_servers", "switches"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - one of two words
    connection.executemany(_SAVE, map(server_row, registrations))
    connection.executemany(_SWITCH, map(switch_row, set_switches))
    connection.execute("UPDATE server_marks SET mark = hex(randomblob(8))")
    connection.execute(
        """
        INSERT OR IGNORE INTO server_marks (scope, mark)
        SELECT scope, hex(randomblob(8)) FROM registered_servers
        UNION SELECT scope, hex(randomblob(8)) FROM switches
        """
    )


_SAVE = """
    INSERT INTO registered_servers (scope, name, content, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, name) DO UPDATE SET content = excluded.content, checksum = excluded.checksum
    """
_SWITCH = """
    INSERT INTO switches (scope, server, is_wanted, at, checksum) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (scope, server) DO UPDATE
    SET is_wanted = excluded.is_wanted, at = excluded.at, checksum = excluded.checksum
    """


def server_row(record: RegistrationRecord) -> tuple[object, ...]:
    row = as_text(record.scope), as_text(record.server.name), record.server.to_text()
    return (*row, checksum_of(*row))


def switch_row(record: SwitchRecord) -> tuple[object, ...]:
    row = as_text(record.scope), as_text(record.server), int(bool(record.is_wanted)), record.at
    return (*row, checksum_of(*row))


def registered(scope: str, _: str, content: str) -> RegistrationRecord:
    from discovery_engine.registry.server_records import RegisteredServer  # noqa: PLC0415

    return RegistrationRecord(from_column(scope), RegisteredServer.from_text(content))


def switched(scope: str, server: str, is_wanted: int, at: float) -> SwitchRecord:
    return SwitchRecord(from_column(scope), from_column(server), bool(is_wanted), at)


def _set_mark(connection: sqlite3.Connection, scope: str, *, is_changed: bool) -> None:
    if is_changed:
        query = "INSERT OR REPLACE INTO server_marks VALUES (?, hex(randomblob(8)))"
        connection.execute(query, (as_text(scope),))
