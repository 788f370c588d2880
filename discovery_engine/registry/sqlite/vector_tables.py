"""The vectors of texts in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from discovery_engine.registry.sqlite.encoding import as_text, from_column


def vectors(
    connection: sqlite3.Connection, model: str, digests: Collection[bytes]
) -> dict[bytes, bytes]:
    rows = connection.execute("SELECT digest, data FROM vectors WHERE model = ?", (as_text(model),))
    wanted = frozenset(digests)
    return {digest: data for digest, data in rows if digest in wanted}


def save(
    connection: sqlite3.Connection, scope: str, model: str, new: Mapping[bytes, bytes]
) -> None:
    connection.executemany(
        """
        INSERT INTO vectors (model, digest, data) VALUES (?, ?, ?)
        ON CONFLICT (model, digest) DO UPDATE SET data = excluded.data
        """,
        [(as_text(model), digest, data) for digest, data in new.items()],
    )
    _use(connection, scope, model, new)


def used(connection: sqlite3.Connection, scope: str) -> dict[tuple[str, bytes], bytes]:
    """Those that a scope uses, by model and digest."""
    query = """
        SELECT model, digest, data FROM vectors JOIN vector_uses ON vector = vectors.id
        JOIN scopes ON scopes.id = scope WHERE scopes.name = ?
        """
    rows = connection.execute(query, (as_text(scope),))
    return {(from_column(model), digest): data for model, digest, data in rows}


def count(connection: sqlite3.Connection, scope: str) -> int:
    """How many a scope uses."""
    query = """
        SELECT count(*) FROM vector_uses JOIN scopes ON scopes.id = scope WHERE scopes.name = ?
        """
    return int(connection.execute(query, (as_text(scope),)).fetchone()[0])


def keep(connection: sqlite3.Connection, scope: str, model: str, digests: Collection[bytes]) -> int:
    """Let a scope use these vectors and no others; returns how many were dropped."""
    connection.execute(
        "DELETE FROM vector_uses WHERE scope = (SELECT id FROM scopes WHERE name = ?)",
        (as_text(scope),),
    )
    _use(connection, scope, model, digests)
    query = "DELETE FROM vectors WHERE id NOT IN (SELECT vector FROM vector_uses)"
    return connection.execute(query).rowcount


def _use(
    connection: sqlite3.Connection, scope: str, model: str, digests: Collection[bytes]
) -> None:
    connection.executemany(
        """
        INSERT OR IGNORE INTO vector_uses (scope, vector)
        SELECT scopes.id, vectors.id FROM scopes, vectors
        WHERE scopes.name = ? AND vectors.model = ? AND vectors.digest = ?
        """,
        [(as_text(scope), as_text(model), digest) for digest in digests],
    )
