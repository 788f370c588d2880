"""Registered servers and switches in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from discovery_engine.registry.records import DecisionExport, RegistrationRecord, SwitchRecord
from discovery_engine.registry.server_records import RegisteredServer, ServerSwitch
from discovery_engine.registry.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from psycopg import Connection


def servers(connection: Connection, scope: str) -> tuple[RegisteredServer, ...]:
    """In the order in which they were registered."""
    query = """
        SELECT content FROM discovery.registered_servers WHERE scope_key = %s ORDER BY number
        """
    rows = connection.execute(query, (key_of(scope),))
    return tuple(RegisteredServer.from_text(from_column(content)) for (content,) in rows)


def switches(connection: Connection, scope: str) -> dict[str, ServerSwitch]:
    query = "SELECT server, is_wanted, at FROM discovery.switches WHERE scope_key = %s"
    rows = connection.execute(query, (key_of(scope),))
    return {from_column(server): ServerSwitch(is_wanted, at) for server, is_wanted, at in rows}


def mark(connection: Connection, scope: str) -> str:
    query = "SELECT mark FROM discovery.server_marks WHERE key = %s"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return str(row[0]) if row else ""


def save(connection: Connection, scope: str, kept: Sequence[RegisteredServer], number: int) -> int:
    """Add servers, or put them in the place of those of their names; returns how many."""
    for place, server in enumerate(kept, 1):
        connection.execute(_SAVE, _server_row(scope, server, number + place))
    set_mark(connection, scope, is_changed=bool(kept))
    return len(kept)


def delete(connection: Connection, scope: str, names: Iterable[str]) -> int:
    query = "DELETE FROM discovery.registered_servers WHERE key = ANY(%s)"
    keys = [key_of(scope, name) for name in names]
    count = connection.execute(query, (keys,)).rowcount
    set_mark(connection, scope, is_changed=count > 0)
    return count


def switch(connection: Connection, scope: str, wanted: Mapping[str, bool | None], at: float) -> int:
    """Set switches, or drop them with None; returns how many were changed."""
    old_switches = switches(connection, scope)
    changed = {
        server: is_wanted
        for server, is_wanted in wanted.items()
        if is_wanted is not (old_switches[server].is_wanted if server in old_switches else None)
    }
    for server, is_wanted in changed.items():
        if is_wanted is None:
            query = "DELETE FROM discovery.switches WHERE key = %s"
            connection.execute(query, (key_of(scope, server),))
        else:
            connection.execute(_SWITCH, _switch_row(scope, server, is_wanted, at))
    set_mark(connection, scope, is_changed=bool(changed))
    return len(changed)


def records(connection: Connection) -> Iterator[RegistrationRecord | SwitchRecord]:
    """Yield the servers and then the switches of all scopes, in their order."""
    query = "SELECT scope, content FROM discovery.registered_servers ORDER BY number"
    for scope, content in connection.execute(query):
        server = RegisteredServer.from_text(from_column(content))
        yield RegistrationRecord(from_column(scope), server)
    query = "SELECT scope, server, is_wanted, at FROM discovery.switches ORDER BY at"
    for scope, server, *rest in connection.execute(query):
        yield SwitchRecord(from_column(scope), from_column(server), *rest)


def marks(connection: Connection) -> dict[str, str]:
    """Return the marks of all scopes, by scope."""
    rows = connection.execute("SELECT scope, mark FROM discovery.server_marks")
    return {from_column(scope): mark for scope, mark in rows}


def replace(connection: Connection, decisions: DecisionExport) -> None:
    """Hold these servers and switches, and no others."""
    for table in ("registered_servers", "switches", "server_marks"):
        connection.execute(f"DELETE FROM discovery.{table}")  # noqa: S608 - one of three words
    servers, switches = decisions.effective.servers.values(), decisions.effective.switches.values()
    with connection.cursor() as cursor:
        cursor.executemany(
            _SAVE,
            [
                _server_row(record.scope, record.server, number)
                for number, record in enumerate(servers, 1 - len(servers))
            ],
        )
        cursor.executemany(
            _SWITCH,
            [
                _switch_row(record.scope, record.server, record.is_wanted, record.at)
                for record in switches
            ],
        )
        cursor.executemany(
            _MARK,
            [(key_of(scope), to_column(scope), mark) for scope, mark in decisions.marks.items()],
        )


def _server_row(scope: str, one: RegisteredServer, number: int) -> tuple[object, ...]:
    texts = map(to_column, (scope, one.name, one.to_text()))
    return key_of(scope, one.name), number, *texts, key_of(scope)


def _switch_row(scope: str, server: str, is_wanted: bool | None, at: float) -> tuple[object, ...]:  # noqa: FBT001
    texts = map(to_column, (scope, server))
    return key_of(scope, server), *texts, is_wanted, at, key_of(scope)


def set_mark(connection: Connection, scope: str, *, is_changed: bool) -> None:
    if is_changed:
        row = key_of(scope), to_column(scope), secrets.token_hex(8)
        connection.execute(_MARK, row)


_SAVE = """
    INSERT INTO discovery.registered_servers (key, number, scope, name, content, scope_key)
    VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (key) DO UPDATE SET content = excluded.content
    """
_SWITCH = """
    INSERT INTO discovery.switches (key, scope, server, is_wanted, at, scope_key)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET is_wanted = excluded.is_wanted, at = excluded.at
    """
_MARK = """
    INSERT INTO discovery.server_marks (key, scope, mark) VALUES (%s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET mark = excluded.mark
    """
