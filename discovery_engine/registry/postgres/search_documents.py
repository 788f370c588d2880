"""The store that tools are searched in, in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres import search_queries
from discovery_engine.registry.postgres.search_vectors import PostgresVectorSearch

if TYPE_CHECKING:
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.search.database.document_place import DocumentPlace
    from discovery_engine.search.database.search_store import (
        Nearest,
        ServerDocuments,
        StoredDocument,
        StoredIndex,
    )
    from discovery_engine.tools.model import ServerName


class PostgresSearchStore:
    """`search.database.search_store` has its contract."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.vectors = PostgresVectorSearch(database)

    def stored_index(self, scope: str, recipe: bytes, *, since: int) -> StoredIndex | None:
        if not since:
            self._database.write(lambda db: search_queries.use(db, scope, recipe))
        found = self._database.read(lambda db: search_queries.find(db, scope, recipe, since))
        # One that was used no more is dropped some day, although a gateway runs that used it.
        return self.stored_index(scope, recipe, since=0) if found is None and since else found

    def save_documents(self, index: int, servers: Sequence[ServerDocuments]) -> None:
        self._database.write(lambda db: search_queries.save(db, index, servers))

    def confirm(self, index: int, made_of: Mapping[ServerName, bytes]) -> None:
        self._database.write(lambda db: search_queries.confirm(db, index, made_of))

    def nearest(
        self,
        index: int,
        weights: Mapping[int, float],
        most: int,
        *,
        postings: int,
        servers: Collection[int] | None = None,
    ) -> Nearest | None:
        return self._database.read(
            lambda db: search_queries.nearest(
                db, index, weights, most, postings=postings, servers=servers
            )
        )

    def documents(
        self, places: Collection[DocumentPlace]
    ) -> Mapping[DocumentPlace, StoredDocument]:
        return self._database.read(lambda db: search_queries.documents(db, places))
