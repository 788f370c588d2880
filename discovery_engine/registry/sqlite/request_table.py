"""Requests that a language model wrote for tools, in SQLite; `registry.protocols` says more."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.registry.sqlite.encoding import as_text, from_column

if TYPE_CHECKING:
    from discovery_engine.search.examples.written import WrittenRequests

_Row: TypeAlias = tuple[str | bytes, str | bytes, str, str, str, int, float]

_KEPT = 50_000  # definitions; the oldest are dropped first


def mark(connection: sqlite3.Connection) -> str:
    query = "SELECT count(*), max(id) FROM typical_requests"
    count, newest = connection.execute(query).fetchone()
    return f"{count}:{newest}" if count else ""


def load(connection: sqlite3.Connection) -> tuple[WrittenRequests, ...]:
    query = """
        SELECT server, tool, fingerprint, requests, model, instructions, at FROM typical_requests
        WHERE typeof(instructions) = 'integer' AND typeof(at) = 'real'
        """
    return tuple(_written(connection.execute(query)))


def save(connection: sqlite3.Connection, written: Iterable[WrittenRequests]) -> None:
    connection.executemany(
        """
        INSERT OR REPLACE INTO typical_requests
        (server, tool, fingerprint, requests, model, instructions, at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                as_text(one.server),
                as_text(one.tool),
                one.fingerprint,
                json.dumps(one.requests),
                one.model,
                one.instructions,
                float(one.at),
            )
            for one in written
        ],
    )
    # By their number, not by their ids: what is written anew gets a new id.
    query = """
        DELETE FROM typical_requests
        WHERE id <= (SELECT id FROM typical_requests ORDER BY id DESC LIMIT 1 OFFSET ?)
        """
    connection.execute(query, (_KEPT,))


def forget(connection: sqlite3.Connection, tools: Collection[tuple[str, str]] | None) -> int:
    if tools is None:
        return connection.execute("DELETE FROM typical_requests").rowcount
    query = "DELETE FROM typical_requests WHERE server = ? AND tool = ?"
    rows = [(as_text(server), as_text(tool)) for server, tool in tools]
    return sum(connection.execute(query, row).rowcount for row in rows)


def _written(rows: Iterable[_Row]) -> Iterator[WrittenRequests]:
    """What the rows hold; a damaged one is left out, and can be written again."""
    # Most starts read none, and a class costs each of them a quarter of a millisecond.
    from discovery_engine.search.examples.written import WrittenRequests  # noqa: PLC0415

    for server, tool, fingerprint, text, model, instructions, at in rows:
        try:
            requests = json.loads(text)
        except (TypeError, ValueError):
            continue
        if isinstance(requests, list) and all(isinstance(one, str) for one in requests):
            yield WrittenRequests(
                from_column(server),
                from_column(tool),
                fingerprint,
                tuple(requests),
                model,
                instructions,
                at,
            )
