"""Requests of agents, in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.request_records import AgentRequest

if TYPE_CHECKING:
    from psycopg import Connection

_KEPT = 500  # of a scope; the oldest are dropped first


def load(connection: Connection, scope: str) -> tuple[AgentRequest, ...]:
    query = "SELECT request FROM discovery.agent_requests WHERE scope_key = %s ORDER BY number"
    rows = connection.execute(query, (key_of(scope),))
    return tuple(_request(text) for (text,) in rows)


def save(connection: Connection, scope: str, request: AgentRequest) -> None:
    connection.execute(
        """
        INSERT INTO discovery.agent_requests (scope_key, scope, id, request)
        VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET request = excluded.request
        """,
        (key_of(scope), to_column(scope), request.id, _text(request)),
    )
    connection.execute(
        """
        DELETE FROM discovery.agent_requests WHERE scope_key = %s AND number <= (
            SELECT number FROM discovery.agent_requests WHERE scope_key = %s
            ORDER BY number DESC LIMIT 1 OFFSET %s
        )
        """,
        (key_of(scope), key_of(scope), _KEPT),
    )


def replace_one(connection: Connection, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
    query = """
        SELECT request FROM discovery.agent_requests WHERE scope_key = %s AND id = %s FOR UPDATE
        """
    row = connection.execute(query, (key_of(scope), known.id)).fetchone()
    is_same = row is not None and _request(row[0]) == known
    if is_same:
        save(connection, scope, new)
    return is_same


def _text(request: AgentRequest) -> str:
    return to_column(msgspec.json.encode(request).decode())


def _request(text: str) -> AgentRequest:
    return msgspec.json.decode(from_column(text), type=AgentRequest)
