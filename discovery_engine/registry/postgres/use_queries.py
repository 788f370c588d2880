"""Uses of tools in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

if TYPE_CHECKING:
    from psycopg import Connection


def uses(connection: Connection, scope: str) -> dict[ToolKey, UseCount]:
    query = """
        SELECT servers.name, tool, count, at FROM discovery.uses
        JOIN discovery.servers ON servers.id = uses.server
        JOIN discovery.scopes ON scopes.id = servers.scope WHERE scopes.key = %s
        """
    return {
        ToolKey(ServerName(from_column(server)), ToolName(from_column(tool))): UseCount(count, at)
        for server, tool, count, at in connection.execute(query, (key_of(scope),))
    }


def count(connection: Connection, scope: str, key: ToolKey, at: float) -> None:
    if (server := _locked_server(connection, scope, key)) is None:
        return
    query = "SELECT count, at FROM discovery.uses WHERE server = %s AND key = %s"
    known = connection.execute(query, (server, key_of(key.tool))).fetchone()
    use = UseCount(*(known or (0.0, at))).incremented(at)
    _save(connection, server, key, use)


def save_all(connection: Connection, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
    """Have these counts, whatever there were; those of unknown servers are left out."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            INSERT INTO discovery.uses (server, key, tool, count, at)
            SELECT servers.id, %s, %s, %s, %s FROM discovery.servers
            JOIN discovery.scopes ON scopes.id = servers.scope
            WHERE scopes.key = %s AND servers.key = %s
            ON CONFLICT (server, key) DO UPDATE SET count = excluded.count, at = excluded.at
            """,
            [
                (
                    key_of(key.tool), to_column(key.tool), use.count, use.at,
                    key_of(scope), key_of(key.server),
                )
                for key, use in uses.items()
            ],
        )  # fmt: skip


def _locked_server(connection: Connection, scope: str, key: ToolKey) -> int | None:
    query = """
        SELECT servers.id FROM discovery.servers JOIN discovery.scopes ON scopes.id = servers.scope
        WHERE scopes.key = %s AND servers.key = %s FOR UPDATE OF servers
        """
    row = connection.execute(query, (key_of(scope), key_of(key.server))).fetchone()
    return row[0] if row else None


def _save(connection: Connection, server: int, key: ToolKey, use: UseCount) -> None:
    connection.execute(
        """
        INSERT INTO discovery.uses (server, key, tool, count, at) VALUES (%s, %s, %s, %s, %s)
        ON CONFLICT (server, key) DO UPDATE SET count = excluded.count, at = excluded.at
        """,
        (server, key_of(key.tool), to_column(key.tool), use.count, use.at),
    )
