"""The store that tools are searched in, in a PostgreSQL database."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError
from discovery_engine.registry.postgres import search_queries
from discovery_engine.registry.postgres.search_queries import NOTED_EACH
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

    noted_each = NOTED_EACH.total_seconds()

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._noted: dict[int, float] = {}
        """When the use of an index was noted, by the clock of this process."""
        self.vectors = PostgresVectorSearch(database)

    def stored_index(self, scope: str, recipe: bytes, *, since: int) -> StoredIndex | None:
        if not since:
            self._database.write(lambda db: search_queries.use(db, scope, recipe))
        found = self._database.read(lambda db: search_queries.find(db, scope, recipe, since))
        # One that was used no more is dropped some day, although a gateway runs that used it.
        return self.stored_index(scope, recipe, since=0) if found is None and since else found

    def save_documents(
        self, index: int, servers: Sequence[ServerDocuments], *, unlisted: Collection[ServerName]
    ) -> None:
        self._database.write(lambda db: search_queries.save(db, index, servers, unlisted))

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
        self._note_use(index)
        return self._database.read(
            lambda db: search_queries.nearest(
                db, index, weights, most, postings=postings, servers=servers
            )
        )

    def documents(
        self, places: Collection[DocumentPlace]
    ) -> Mapping[DocumentPlace, StoredDocument]:
        return self._database.read(lambda db: search_queries.documents(db, places))

    def _note_use(self, index: int) -> None:
        """Note once a day that an index is searched, so that the start of another keeps it."""
        now = time.monotonic()
        if now - self._noted.get(index, -math.inf) < self.noted_each:
            return
        self._noted[index] = now
        with suppress(RegistryError):  # a database that is read-only can be searched
            self._database.write(lambda db: search_queries.note_use(db, index))
