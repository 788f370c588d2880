"""Vectors of texts in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.registry.sqlite import vector_tables

if TYPE_CHECKING:
    from discovery_engine.registry.sqlite.database import Database

_AT_ONCE = 2_000  # that are looked at in one transaction: others write in between


class SqliteVectors:
    """The part of `SqliteRegistry` that needs nothing but the file and the machine's clock."""

    _database: Database
    _clock: Callable[[], float]

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        return self._database.read(lambda db: vector_tables.vectors(db, model, digests))

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        now = self._clock()
        self._database.write(lambda db: vector_tables.save(db, scope, model, vectors, now))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        now, dropped = self._clock(), 0
        if not self._database.write(lambda db: vector_tables.is_settled(db, now)):
            dropped = self._drop_unused_vectors(now)
        self._database.write(lambda db: vector_tables.use(db, scope, model, digests, now))
        return dropped

    def _drop_unused_vectors(self, now: float) -> int:
        """Whoever is interrupted has dropped some; the next one goes on."""
        dropped = 0
        last: int | None = 0
        while last is not None:
            drop = partial(vector_tables.drop_unused, after=last, most=_AT_ONCE)
            gone, last = self._database.write(drop)
            dropped += gone
        self._database.write(lambda db: vector_tables.settle(db, now))
        return dropped

    def vector_count(self, scope: str) -> int:
        return self._database.read(lambda db: vector_tables.count(db, scope))

    def used_vectors(self, scope: str) -> list[tuple[str, bytes]]:
        return self._database.read(lambda db: vector_tables.used(db, scope))
