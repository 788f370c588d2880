"""What servers listed, in SQLite, a row each; `registry.protocols` has its contract."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from msgspec.structs import astuple

from discovery_engine.registry.codec import PartRow


def rows(connection: sqlite3.Connection, scope: int) -> list[PartRow]:
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM servers JOIN listings ON listings.server = servers.id WHERE scope = ?
        """
    return [PartRow(*row) for row in connection.execute(query, (scope,))]


def save(connection: sqlite3.Connection, server: int, row: PartRow) -> None:
    part, *columns = astuple(row)
    connection.execute("UPDATE servers SET part = ? WHERE id = ?", (part, server))
    query = "INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, (server, *columns))


def forget(connection: sqlite3.Connection, servers: Iterable[int]) -> int:
    """Drop what servers listed; returns how many tools that were."""
    tools = 0
    for server in servers:
        query = "SELECT upstream_names FROM listings WHERE server = ?"
        for (names,) in connection.execute(query, (server,)):
            tools += len(json.loads(names))
        connection.execute("UPDATE servers SET part = NULL WHERE id = ?", (server,))
        connection.execute("DELETE FROM listings WHERE server = ?", (server,))
    return tools
