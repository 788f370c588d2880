"""Uses of tools in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

_SERVER = """
    SELECT servers.id FROM servers JOIN scopes ON scopes.id = servers.scope
    WHERE scopes.name = ? AND servers.name = ?
    """


def uses(connection: sqlite3.Connection, scope: str) -> dict[ToolKey, UseCount]:
    query = """
        SELECT servers.name, tool, count, at FROM uses
        JOIN servers ON servers.id = uses.server JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.name = ? AND typeof(count) = 'real' AND typeof(at) = 'real'
        """
    return {
        ToolKey(ServerName(from_column(server)), ToolName(from_column(tool))): UseCount(count, at)
        for server, tool, count, at in connection.execute(query, (as_text(scope),))
    }


def save(connection: sqlite3.Connection, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
    """Have these counts, whatever there were; those of unknown servers are left out."""
    for key, use in uses.items():
        for (server,) in connection.execute(_SERVER, (as_text(scope), as_text(key.server))):
            row = server, as_text(key.tool), use.count, use.at
            connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?)", row)


def count(connection: sqlite3.Connection, scope: str, key: ToolKey, at: float) -> None:
    server = connection.execute(_SERVER, (as_text(scope), as_text(key.server))).fetchone()
    if server is None:
        return
    row = *server, as_text(key.tool)
    query = "SELECT count, at FROM uses WHERE server = ? AND tool = ?"
    known = connection.execute(query, row).fetchone()
    use = UseCount(*(known or (0.0, at))).incremented(at)
    connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?)", (*row, use.count, use.at))
