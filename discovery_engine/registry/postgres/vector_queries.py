"""The vectors of texts in PostgreSQL, as bytes; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from psycopg import Connection


def vectors(connection: Connection, model: str, digests: Collection[bytes]) -> dict[bytes, bytes]:
    query = "SELECT digest, data FROM discovery.vectors WHERE key = ANY(%s)"
    return dict(connection.execute(query, (_keys(model, digests),)).fetchall())


def save(connection: Connection, scope: str, model: str, new: Mapping[bytes, bytes]) -> None:
    # In one order on all gateways, so that two that save the same do not block each other.
    digests = sorted(new)
    connection.execute(
        """
        INSERT INTO discovery.vectors (key, model, digest, data)
        SELECT key, %s, digest, data FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[])
            AS new(key, digest, data)
        ON CONFLICT (key) DO UPDATE SET data = excluded.data WHERE vectors.data <> excluded.data
        """,
        (to_column(model), _keys(model, digests), digests, [new[one] for one in digests]),
    )
    _use(connection, scope, model, new)


def used(connection: Connection, scope: str) -> dict[tuple[str, bytes], bytes]:
    """Those that a scope uses, by model and digest."""
    query = """
        SELECT model, digest, data FROM discovery.vectors
        JOIN discovery.vector_uses ON vector = vectors.id
        JOIN discovery.scopes ON scopes.id = scope WHERE scopes.key = %s
        """
    rows = connection.execute(query, (key_of(scope),))
    return {(from_column(model), digest): data for model, digest, data in rows}


def count(connection: Connection, scope: str) -> int:
    """How many a scope uses."""
    query = """
        SELECT count(*) FROM discovery.vector_uses
        JOIN discovery.scopes ON scopes.id = scope WHERE scopes.key = %s
        """
    [found] = connection.execute(query, (key_of(scope),)).fetchone() or (0,)
    return int(found)


def keep(connection: Connection, scope: str, model: str, digests: Collection[bytes]) -> int:
    """Let a scope use these vectors and no others; returns how many were dropped."""
    connection.execute(
        """
        DELETE FROM discovery.vector_uses USING discovery.scopes
        WHERE scopes.id = vector_uses.scope AND scopes.key = %s
        """,
        (key_of(scope),),
    )
    _use(connection, scope, model, digests)
    query = """
        DELETE FROM discovery.vectors WHERE NOT EXISTS (
            SELECT FROM discovery.vector_uses WHERE vector_uses.vector = vectors.id
        )
        """
    return connection.execute(query).rowcount


def _use(connection: Connection, scope: str, model: str, digests: Collection[bytes]) -> None:
    connection.execute(
        """
        INSERT INTO discovery.vector_uses (scope, vector)
        SELECT scopes.id, vectors.id FROM discovery.scopes, discovery.vectors
        WHERE scopes.key = %s AND vectors.key = ANY(%s)
        ON CONFLICT DO NOTHING
        """,
        (key_of(scope), _keys(model, digests)),
    )


def _keys(model: str, digests: Collection[bytes]) -> list[bytes]:
    return [key_of(model, digest) for digest in digests]
