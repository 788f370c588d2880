"""Requests of agents; `registry.protocols` has their contract."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from discovery_engine.registry.statements import Connection

logger = logging.getLogger(__name__)

REQUESTS_KEPT = 500  # of a scope; the oldest are dropped first


def load(connection: Connection, scope: str) -> tuple[AgentRequest, ...]:
    statement = "SELECT request FROM agent_requests WHERE scope_key = ? ORDER BY number"
    rows = connection.execute(statement, (key_of(scope),))
    return tuple(request for (text,) in rows if (request := _request(text)))


def save(connection: Connection, scope: str, request: AgentRequest) -> None:
    connection.execute(
        """
        INSERT INTO agent_requests (scope_key, scope, id, request) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET request = excluded.request
        """,
        (key_of(scope), to_column(scope), request.id, _text(request)),
    )
    connection.execute(
        """
        DELETE FROM agent_requests WHERE scope_key = ? AND number <= (
            SELECT number FROM agent_requests WHERE scope_key = ?
            ORDER BY number DESC LIMIT 1 OFFSET ?
        )
        """,
        (key_of(scope), key_of(scope), REQUESTS_KEPT),
    )


def replace_one(connection: Connection, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
    statement = "SELECT request FROM agent_requests WHERE scope_key = ? AND id = ?"
    row = connection.execute(
        statement + connection.for_update, (key_of(scope), known.id)
    ).fetchone()
    is_same = row is not None and _request(row[0]) == known
    if is_same:
        save(connection, scope, new)
    return is_same


def _text(request: AgentRequest) -> str:
    return to_column(msgspec.json.encode(request).decode())


def _request(text: str) -> AgentRequest | None:
    try:
        return msgspec.json.decode(from_column(text), type=AgentRequest)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("A request of an agent cannot be read: %s", error)
        return None
