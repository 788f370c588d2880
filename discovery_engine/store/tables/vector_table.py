"""The table of embedding vectors, as bytes by model and digest of the text.

A process records in each period of 30 days which vectors it uses. In a new period the first process
deletes those that none has used since the last deletion, so an unused vector stays for one to two
periods. No process knows the tools of all others, for instance while a configuration is rolled out;
therefore the recorded uses of all of them decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from discovery_engine._util.batches import batches
from discovery_engine.store.stored_text import key_of, to_column

if TYPE_CHECKING:
    from discovery_engine.store.statements import Connection

_PERIOD = 30 * 86_400.0  # seconds; processes record their uses each day
_LEASE = "unused vectors"
"""The row of `leases` whose fence is the period in which unused vectors were last deleted."""
_KEY = key_of(_LEASE)
_SETTLED = "SELECT coalesce(max(fence), 0) FROM leases WHERE key = ?"
"""Selects that period."""
_MOST_PARAMETERS = 900  # in one statement; builds of SQLite before 3.32 take 999


def vectors(connection: Connection, model: str, digests: Collection[bytes]) -> dict[bytes, bytes]:
    """Return the stored vectors of a model by the digests of their texts."""
    by_digest = dict[bytes, bytes]()
    for some in batches(keys(model, digests), lambda _: 1, most=_MOST_PARAMETERS):
        marks = ", ".join("?" * len(some))
        by_digest.update(
            connection.execute(f"SELECT digest, data FROM vectors WHERE key IN ({marks})", some)  # noqa: S608 - question marks
        )
    return by_digest


def save(connection: Connection, scope: str, model: str, new: Mapping[bytes, bytes]) -> None:
    """Insert or replace vectors of a model, by digest, and record that the scope uses them."""
    connection.executemany(
        """
        INSERT INTO vectors (key, model, digest, data) VALUES (?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET data = excluded.data WHERE vectors.data <> excluded.data
        """,
        [(key_of(model, digest), to_column(model), digest, data) for digest, data in new.items()],
    )
    use(connection, scope, model, new)


def count(connection: Connection, scope: str) -> int:
    """Return how many vectors a scope uses."""
    statement = f"""
        SELECT count(*) FROM vector_uses JOIN scopes ON scopes.id = scope
        WHERE scopes.key = ? AND period >= ({_SETTLED})
        """  # noqa: S608 - made of constants
    return int(connection.execute(statement, (key_of(scope), _KEY)).fetchone()[0])


def is_settled(connection: Connection) -> bool:
    """Return whether unused vectors were deleted in this period; the first period has none."""
    begin = """
        INSERT INTO leases (key, name, holder, fence, renewals) VALUES (?, ?, '', ?, 0)
        ON CONFLICT (key) DO NOTHING
        """
    period = _period_at(connection.now())
    connection.execute(begin, (_KEY, _LEASE, period))
    [settled] = connection.execute("SELECT fence FROM leases WHERE key = ?", (_KEY,)).fetchone()
    return bool(settled == period)


def settle(connection: Connection) -> None:
    """Record that all unused vectors were deleted in this period."""
    statement = "UPDATE leases SET fence = ? WHERE key = ?"
    connection.execute(statement, (_period_at(connection.now()), _KEY))


def drop_unused(connection: Connection, after: int, most: int) -> tuple[int, int | None]:
    """Check the next vectors, and delete those without a use since the last deletion.

    Args:
        connection: A connection in a transaction.
        after: The id of the last vector that was checked.
        most: The most vectors to check.

    Returns:
        How many were deleted, and the id of the last one that was checked; None at the end.
    """
    statement = """
        SELECT max(id) FROM (SELECT id FROM vectors WHERE id > ? ORDER BY id LIMIT ?) AS next
        """
    [last] = connection.execute(statement, (after, most)).fetchone()
    if last is None:
        return 0, None
    statement = f"""
        DELETE FROM vectors WHERE id > ? AND id <= ? AND NOT EXISTS (
            SELECT 1 FROM vector_uses WHERE vector = vectors.id AND period >= ({_SETTLED})
        )
        """  # noqa: S608 - made of constants
    return connection.execute(statement, (after, last, _KEY)).rowcount, last


def use(connection: Connection, scope: str, model: str, digests: Collection[bytes]) -> None:
    """Record that a scope uses these vectors in the present period."""
    period = _period_at(connection.now())
    connection.executemany(
        """
        INSERT INTO vector_uses (scope, vector, period)
        SELECT scopes.id, vectors.id, ? FROM scopes, vectors
        WHERE scopes.key = ? AND vectors.key = ?
        ON CONFLICT (scope, vector) DO UPDATE
        SET period = excluded.period WHERE vector_uses.period < excluded.period
        """,
        [(period, key_of(scope), key) for key in keys(model, digests)],
    )


def keys(model: str, digests: Iterable[bytes]) -> list[bytes]:
    """Return the keys of a model's vectors, in the order of `digests`."""
    return [key_of(model, digest) for digest in digests]


def _period_at(now: float) -> int:
    return int(now // _PERIOD)
