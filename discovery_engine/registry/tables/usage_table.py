"""Uses of tools; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.stored_text import from_column, key_of, to_column
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

if TYPE_CHECKING:
    from discovery_engine.registry.statements import Connection

_SAVE = """
    INSERT INTO uses (server, key, tool, count, at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (server, key) DO UPDATE SET count = excluded.count, at = excluded.at
    """


def uses(connection: Connection, scope: str) -> dict[ToolKey, UseCount]:
    statement = """
        SELECT servers.name, tool, count, at FROM uses
        JOIN servers ON servers.id = uses.server
        JOIN scopes ON scopes.id = servers.scope WHERE scopes.key = ?
        """
    return {
        ToolKey(ServerName(from_column(server)), ToolName(from_column(tool))): UseCount(count, at)
        for server, tool, count, at in connection.execute(statement, (key_of(scope),))
        if isinstance(count, float) and isinstance(at, float)  # else the row is damaged
    }


def count(connection: Connection, scope: str, key: ToolKey, at: float) -> None:
    if (server := _server(connection, scope, key)) is None:
        return
    statement = "SELECT count, at FROM uses WHERE server = ? AND key = ?"
    row = connection.execute(statement, (server, key_of(key.tool))).fetchone()
    _save(connection, server, key, UseCount(*(row or (0.0, at))).incremented(at))


def save_all(connection: Connection, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
    """Have these counts, whatever there were; those of unknown servers are left out."""
    for key, use in uses.items():
        if (server := _server(connection, scope, key)) is not None:
            _save(connection, server, key, use)


def _server(connection: Connection, scope: str, key: ToolKey) -> int | None:
    statement = """
        SELECT servers.id FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.key = ? AND servers.key = ?
        """
    keys = key_of(scope), key_of(key.server)
    row = connection.execute(statement + connection.for_update, keys).fetchone()
    return row[0] if row else None


def _save(connection: Connection, server: int, key: ToolKey, use: UseCount) -> None:
    row = server, key_of(key.tool), to_column(key.tool), use.count, use.at
    connection.execute(_SAVE, row)
