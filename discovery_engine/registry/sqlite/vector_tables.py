"""The vectors of texts in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from discovery_engine._util.batches import batches
from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.registry.vector_period import LEASE, period_at

_SETTLED = "SELECT coalesce(max(fence), 0) FROM leases WHERE name = ?"
"""The period in which unused ones were last dropped."""
_MOST_VARIABLES = 900  # in one statement; builds of SQLite before 3.32 have 999


def vectors(
    connection: sqlite3.Connection, model: str, digests: Collection[bytes]
) -> dict[bytes, bytes]:
    found = dict[bytes, bytes]()
    for some in batches(digests, lambda _: 1, most=_MOST_VARIABLES):
        marks = ", ".join("?" * len(some))
        query = f"SELECT digest, data FROM vectors WHERE model = ? AND digest IN ({marks})"  # noqa: S608
        found.update(connection.execute(query, (as_text(model), *some)))
    return found


def save(
    connection: sqlite3.Connection, scope: str, model: str, new: Mapping[bytes, bytes], now: float
) -> None:
    connection.executemany(
        """
        INSERT INTO vectors (model, digest, data) VALUES (?, ?, ?)
        ON CONFLICT (model, digest) DO UPDATE SET data = excluded.data
        """,
        [(as_text(model), digest, data) for digest, data in new.items()],
    )
    use(connection, scope, model, new, now)


def used(connection: sqlite3.Connection, scope: str) -> list[tuple[str, bytes]]:
    """Models and digests of those that a scope uses."""
    query = f"""
        SELECT model, digest FROM vectors JOIN vector_uses ON vector = vectors.id
        JOIN scopes ON scopes.id = scope WHERE scopes.name = ? AND period >= ({_SETTLED})
        """  # noqa: S608 - made of constants
    rows = connection.execute(query, (as_text(scope), LEASE))
    return [(from_column(model), digest) for model, digest in rows]


def count(connection: sqlite3.Connection, scope: str) -> int:
    """How many a scope uses."""
    query = f"""
        SELECT count(*) FROM vector_uses JOIN scopes ON scopes.id = scope
        WHERE scopes.name = ? AND period >= ({_SETTLED})
        """  # noqa: S608 - made of constants
    return int(connection.execute(query, (as_text(scope), LEASE)).fetchone()[0])


def is_settled(connection: sqlite3.Connection, now: float) -> bool:
    """Whether the unused ones were dropped in this period; the first one ever has none."""
    begin = "INSERT OR IGNORE INTO leases VALUES (?, '', ?, 0)"
    connection.execute(begin, (LEASE, period_at(now)))
    query = "SELECT fence = ? FROM leases WHERE name = ?"
    return bool(connection.execute(query, (period_at(now), LEASE)).fetchone()[0])


def settle(connection: sqlite3.Connection, now: float) -> None:
    """All that were unused are dropped in this period."""
    query = "UPDATE leases SET fence = ? WHERE name = ?"
    connection.execute(query, (period_at(now), LEASE))


def drop_unused(connection: sqlite3.Connection, after: int, most: int) -> tuple[int, int | None]:
    """Drop those of the next few that nobody used since the period that was last settled.

    Args:
        connection: In a transaction.
        after: The last one that was looked at.
        most: How many are looked at.

    Returns:
        How many were dropped, and the last one that was looked at; None if there are no more.
    """
    query = "SELECT max(id) FROM (SELECT id FROM vectors WHERE id > ? ORDER BY id LIMIT ?)"
    [last] = connection.execute(query, (after, most)).fetchone()
    if last is None:
        return 0, None
    query = f"""
        DELETE FROM vectors WHERE id > ? AND id <= ? AND NOT EXISTS (
            SELECT 1 FROM vector_uses WHERE vector = vectors.id AND period >= ({_SETTLED})
        )
        """  # noqa: S608 - made of constants
    return connection.execute(query, (after, last, LEASE)).rowcount, last


def use(
    connection: sqlite3.Connection,
    scope: str,
    model: str,
    digests: Collection[bytes],
    now: float,
) -> None:
    """Note that a scope uses these vectors, too, in this period."""
    connection.executemany(
        """
        INSERT INTO vector_uses (scope, vector, period)
        SELECT scopes.id, vectors.id, ? FROM scopes, vectors
        WHERE scopes.name = ? AND vectors.model = ? AND vectors.digest = ?
        ON CONFLICT (scope, vector) DO UPDATE
        SET period = excluded.period WHERE vector_uses.period < excluded.period
        """,
        [(period_at(now), as_text(scope), as_text(model), digest) for digest in digests],
    )
