"""Search indexes in SQLite; `protocols.IndexStore` defines who may read one."""

from __future__ import annotations

import sqlite3

from discovery_engine.store.stored_text import key_of


def load(connection: sqlite3.Connection, scope: str) -> bytes | None:
    query = "SELECT data FROM indexes JOIN scopes ON scopes.id = indexes.scope WHERE key = ?"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row and isinstance(row[0], bytes) else None


def drop(connection: sqlite3.Connection) -> None:
    """Drop the indexes of all scopes; nothing is written if there is none."""
    if connection.execute("SELECT 1 FROM indexes LIMIT 1").fetchone():
        connection.execute("DELETE FROM indexes")


def save(connection: sqlite3.Connection, scope: str, data: bytes) -> None:
    query = """
        INSERT INTO indexes (scope, data) SELECT id, ? FROM scopes WHERE key = ?
        ON CONFLICT (scope) DO UPDATE SET data = excluded.data
        """
    connection.execute(query, (data, key_of(scope)))
