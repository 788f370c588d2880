"""Requests that a language model wrote for tools; see `store.registry`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_engine.store.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from discovery_engine.search.examples.book import WrittenRequests
    from discovery_engine.store.statements import Connection, Rows

DEFINITIONS_KEPT = 50_000  # the oldest are dropped first


def mark(connection: Connection) -> str:
    count, newest = connection.execute("SELECT count(*), max(id) FROM typical_requests").fetchone()
    return f"{count}:{newest}" if count else ""


def load(connection: Connection) -> tuple[WrittenRequests, ...]:
    statement = """
        SELECT server, tool, fingerprint, model, requests, instructions, at FROM typical_requests
        ORDER BY id
        """
    return tuple(_written(connection.execute(statement)))


def save(connection: Connection, written: Iterable[WrittenRequests]) -> None:
    newest = {
        (requests.server, requests.tool, requests.fingerprint): requests for requests in written
    }
    keys = sorted((key_of(*names), requests) for names, requests in newest.items())
    # Deleted and not updated, as each needs a new id.
    connection.executemany(
        "DELETE FROM typical_requests WHERE key = ?", [(key,) for key, _ in keys]
    )
    connection.executemany(
        """
        INSERT INTO typical_requests
            (key, tool_key, server, tool, fingerprint, requests, model, instructions, at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET requests = excluded.requests, model = excluded.model,
            instructions = excluded.instructions, at = excluded.at
        """,
        [(key, *_row(requests)) for key, requests in keys],
    )
    # By their number, not by their ids: what is written again gets a new id.
    statement = """
        DELETE FROM typical_requests
        WHERE id <= (SELECT id FROM typical_requests ORDER BY id DESC LIMIT 1 OFFSET ?)
        """
    connection.execute(statement, (DEFINITIONS_KEPT,))


def forget(connection: Connection, tools: Collection[tuple[str, str]] | None) -> int:
    if tools is None:
        return connection.execute("DELETE FROM typical_requests").rowcount
    statement = "DELETE FROM typical_requests WHERE tool_key = ?"
    return sum(connection.execute(statement, (key_of(*tool),)).rowcount for tool in tools)


def _row(requests: WrittenRequests) -> tuple[object, ...]:
    return (
        key_of(requests.server, requests.tool),
        *map(to_column, (requests.server, requests.tool, requests.fingerprint)),
        json.dumps(requests.requests),
        to_column(requests.model),
        requests.instructions,
        float(requests.at),
    )


def _written(rows: Rows) -> Iterator[WrittenRequests]:
    """Yield the requests in the rows; a damaged one is left out, and can be written again."""
    # Most starts read none, and a class costs each of them a quarter of a millisecond.
    from discovery_engine.search.examples.book import WrittenRequests  # noqa: PLC0415

    for *texts, requests, instructions, at in rows:
        try:
            server, tool, fingerprint, model = map(from_column, texts)
            examples = json.loads(requests)
        except (TypeError, ValueError):
            continue
        is_whole = isinstance(examples, list) and all(
            isinstance(example, str) for example in examples
        )
        if is_whole and isinstance(instructions, int) and isinstance(at, float):
            yield WrittenRequests(
                server, tool, fingerprint, tuple(examples), model, instructions, at
            )
