"""The vectors of texts in PostgreSQL, as bytes; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.vector_period import LEASE, period_at

if TYPE_CHECKING:
    from psycopg import Connection

_KEY = key_of(LEASE)
_SETTLED = "SELECT coalesce(max(fence), 0) FROM discovery.leases WHERE key = %s"
"""The period in which unused ones were last dropped."""


def vectors(connection: Connection, model: str, digests: Collection[bytes]) -> dict[bytes, bytes]:
    query = "SELECT digest, data FROM discovery.vectors WHERE key = ANY(%s)"
    return dict(connection.execute(query, (keys(model, digests),)).fetchall())


def save(connection: Connection, scope: str, model: str, new: Mapping[bytes, bytes]) -> None:
    connection.execute(
        """
        INSERT INTO discovery.vectors (key, model, digest, data)
        SELECT key, %s, digest, data FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[])
            AS new(key, digest, data)
        ON CONFLICT (key) DO UPDATE SET data = excluded.data WHERE vectors.data <> excluded.data
        """,
        (to_column(model), keys(model, new), [*new], [*new.values()]),
    )
    use(connection, scope, model, new)


def used(connection: Connection, scope: str) -> list[tuple[str, bytes]]:
    """Models and digests of those that a scope uses."""
    query = f"""
        SELECT model, digest FROM discovery.vectors
        JOIN discovery.vector_uses ON vector = vectors.id
        JOIN discovery.scopes ON scopes.id = scope
        WHERE scopes.key = %s AND period >= ({_SETTLED})
        """  # noqa: S608 - made of constants
    rows = connection.execute(query, (key_of(scope), _KEY))
    return [(from_column(model), digest) for model, digest in rows]


def count(connection: Connection, scope: str) -> int:
    """How many a scope uses."""
    query = f"""
        SELECT count(*) FROM discovery.vector_uses JOIN discovery.scopes ON scopes.id = scope
        WHERE scopes.key = %s AND period >= ({_SETTLED})
        """  # noqa: S608 - made of constants
    [found] = connection.execute(query, (key_of(scope), _KEY)).fetchone() or (0,)
    return int(found)


def is_settled(connection: Connection) -> bool:
    """Whether the unused ones were dropped in this period; the first one ever has none."""
    begin = """
        INSERT INTO discovery.leases (key, name, holder, fence, renewals)
        VALUES (%s, %s, '', %s, 0) ON CONFLICT DO NOTHING
        """
    present = _period(connection)
    connection.execute(begin, (_KEY, LEASE, present))
    query = "SELECT fence = %s FROM discovery.leases WHERE key = %s"
    return bool((connection.execute(query, (present, _KEY)).fetchone() or (False,))[0])


def settle(connection: Connection) -> None:
    """All that were unused are dropped in this period."""
    query = "UPDATE discovery.leases SET fence = %s WHERE key = %s"
    connection.execute(query, (_period(connection), _KEY))


def drop_unused(connection: Connection, after: int, most: int) -> tuple[int, int | None]:
    """Drop those of the next few that nobody used since the period that was last settled.

    Args:
        connection: In a transaction.
        after: The last one that was looked at.
        most: How many are looked at.

    Returns:
        How many were dropped, and the last one that was looked at; None if there are no more.
    """
    query = f"""
        WITH looked_at AS (
            SELECT id FROM discovery.vectors WHERE id > %s ORDER BY id LIMIT %s
        ), dropped AS (
            DELETE FROM discovery.vectors USING looked_at
            WHERE vectors.id = looked_at.id AND NOT EXISTS (
                SELECT FROM discovery.vector_uses
                WHERE vector = vectors.id AND period >= ({_SETTLED})
            ) RETURNING 1
        )
        SELECT (SELECT count(*) FROM dropped), (SELECT max(id) FROM looked_at)
        """  # noqa: S608 - made of constants
    return connection.execute(query, (after, most, _KEY)).fetchone() or (0, None)


def use(connection: Connection, scope: str, model: str, digests: Collection[bytes]) -> None:
    """Note that a scope uses these vectors, too, in this period."""
    connection.execute(
        """
        INSERT INTO discovery.vector_uses (scope, vector, period)
        SELECT scopes.id, vectors.id, %s FROM discovery.scopes, discovery.vectors
        WHERE scopes.key = %s AND vectors.key = ANY(%s)
        ORDER BY vectors.id ON CONFLICT (scope, vector) DO UPDATE
        SET period = excluded.period WHERE vector_uses.period < excluded.period
        """,
        (_period(connection), key_of(scope), keys(model, digests)),
    )


def _period(connection: Connection) -> int:
    """The present one, by the clock of the database."""
    [now] = connection.execute("SELECT extract(epoch FROM now())::float8").fetchone() or (0.0,)
    return period_at(now)


def keys(model: str, digests: Iterable[bytes]) -> list[bytes]:
    return [key_of(model, digest) for digest in digests]
