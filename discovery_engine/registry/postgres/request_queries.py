"""Requests that a language model wrote for tools, in PostgreSQL; see `registry.protocols`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.search.examples.written import WrittenRequests

if TYPE_CHECKING:
    from psycopg import Connection

_KEPT = 50_000  # definitions; the oldest are dropped first


def mark(connection: Connection) -> str:
    query = "SELECT count(*), max(id) FROM discovery.typical_requests"
    count, newest = connection.execute(query).fetchone() or (0, 0)
    return f"{count}:{newest}" if count else ""


def load(connection: Connection) -> tuple[WrittenRequests, ...]:
    query = """
        SELECT server, tool, fingerprint, requests, model, instructions, at
        FROM discovery.typical_requests ORDER BY id
        """
    return tuple(
        WrittenRequests(
            from_column(server),
            from_column(tool),
            from_column(fingerprint),
            tuple(json.loads(requests)),
            from_column(model),
            *rest,
        )
        for server, tool, fingerprint, requests, model, *rest in connection.execute(query)
    )


def save(connection: Connection, written: Iterable[WrittenRequests]) -> None:
    newest = {(one.server, one.tool, one.fingerprint): one for one in written}
    keys = sorted((key_of(*names), one) for names, one in newest.items())
    # Deleted and not updated, as each needs a new id.
    query = "DELETE FROM discovery.typical_requests WHERE key = ANY(%s)"
    connection.execute(query, ([key for key, _ in keys],))
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            INSERT INTO discovery.typical_requests
                (key, tool_key, server, tool, fingerprint, requests, model, instructions, at)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
            ON CONFLICT (key) DO UPDATE SET requests = excluded.requests, model = excluded.model,
                instructions = excluded.instructions, at = excluded.at
            """,
            [(key, *_row(one)) for key, one in keys],
        )
    # By their number, not by their ids: what is written anew gets a new id.
    query = """
        DELETE FROM discovery.typical_requests WHERE id <= (
            SELECT id FROM discovery.typical_requests ORDER BY id DESC LIMIT 1 OFFSET %s
        )
        """
    connection.execute(query, (_KEPT,))


def forget(connection: Connection, tools: Collection[tuple[str, str]] | None) -> int:
    if tools is None:
        return connection.execute("DELETE FROM discovery.typical_requests").rowcount
    query = "DELETE FROM discovery.typical_requests WHERE tool_key = ANY(%s)"
    return connection.execute(query, ([key_of(*tool) for tool in tools],)).rowcount


def _row(one: WrittenRequests) -> tuple[object, ...]:
    return (
        key_of(one.server, one.tool),
        to_column(one.server),
        to_column(one.tool),
        to_column(one.fingerprint),
        json.dumps(one.requests),
        to_column(one.model),
        one.instructions,
        float(one.at),
    )
