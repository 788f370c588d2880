"""Requests of agents, in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import logging
import sqlite3

import msgspec

from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.sqlite.encoding import as_text, from_column

logger = logging.getLogger(__name__)

_KEPT = 500  # of a scope; the oldest are dropped first


def load(connection: sqlite3.Connection, scope: str) -> tuple[AgentRequest, ...]:
    query = "SELECT request FROM agent_requests WHERE scope = ? ORDER BY number"
    found = []
    for (text,) in connection.execute(query, (as_text(scope),)):
        try:
            found.append(msgspec.json.decode(from_column(text), type=AgentRequest))
        except (msgspec.MsgspecError, ValueError) as error:
            logger.warning("A request of an agent cannot be read: %s", error)
    return tuple(found)


def save(connection: sqlite3.Connection, scope: str, request: AgentRequest) -> None:
    connection.execute(
        """
        INSERT INTO agent_requests (scope, id, request) VALUES (?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET request = excluded.request
        """,
        (as_text(scope), request.id, msgspec.json.encode(request).decode()),
    )
    connection.execute(
        """
        DELETE FROM agent_requests WHERE scope = ? AND number <= (
            SELECT number FROM agent_requests WHERE scope = ?
            ORDER BY number DESC LIMIT 1 OFFSET ?
        )
        """,
        (as_text(scope), as_text(scope), _KEPT),
    )


def replace_one(
    connection: sqlite3.Connection, scope: str, known: AgentRequest, new: AgentRequest
) -> bool:
    is_same = known in load(connection, scope)
    if is_same:
        save(connection, scope, new)
    return is_same
