"""Vectors of texts in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine._util.batches import batches
from discovery_engine.registry.postgres import vector_queries

if TYPE_CHECKING:
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase

_AT_ONCE = 2_000  # in one transaction: 200,000 take longer than one operation may


class PostgresVectors:
    """The part of `PostgresRegistry` that needs nothing but the database."""

    database: PostgresDatabase

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for some in _some(digests):
            load = partial(vector_queries.vectors, model=model, digests=some)
            found |= self.database.read(load)
        return found

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        for some in _some(vectors):
            new = {digest: vectors[digest] for digest in some}
            save = partial(vector_queries.save, scope=scope, model=model, new=new)
            self.database.write(save)

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        dropped = 0
        if not self.database.write(vector_queries.is_settled):
            dropped = self._drop_unused_vectors()
        for some in _some(digests):
            use = partial(vector_queries.use, scope=scope, model=model, digests=some)
            self.database.write(use)
        return dropped

    def _drop_unused_vectors(self) -> int:
        """Whoever is interrupted has dropped some; the next one goes on."""
        dropped = 0
        last: int | None = 0
        while last is not None:
            drop = partial(vector_queries.drop_unused, after=last, most=_AT_ONCE)
            gone, last = self.database.write(drop)
            dropped += gone
        self.database.write(vector_queries.settle)
        return dropped

    def vector_count(self, scope: str) -> int:
        return self.database.read(lambda db: vector_queries.count(db, scope))

    def used_vectors(self, scope: str) -> list[tuple[str, bytes]]:
        return self.database.read(lambda db: vector_queries.used(db, scope))


def _some(digests: Iterable[bytes]) -> Iterator[list[bytes]]:
    """In one order on all gateways, so that two that save the same do not block each other."""
    return batches(sorted(digests), lambda _: 1, most=_AT_ONCE)
