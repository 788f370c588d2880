"""What a database publishes for the role that reads it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.registry.postgres import publication_queries
from discovery_engine.registry.postgres.database_feed import database_changes
from discovery_engine.registry.published_slices import merged
from discovery_engine.registry.stored_snapshot import stored_parts

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.catalog import ServerPart
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase

Marks: TypeAlias = "Mapping[bytes, str]"
"""The servers of rows, by the marks of these."""
Published: TypeAlias = "tuple[Marks, list[ServerPart]]"
"""All marks of a scope, and some of its servers."""


class PublishedCatalog:
    """It writes nothing. The database is the caller's to close."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    def all_parts(self, scope: str) -> Published:
        """All servers of a scope.

        Raises:
            RegistryError: If the database does not answer, or the role is granted nothing.
        """
        return self.parts_unlike(scope, {})

    def parts_unlike(self, scope: str, known: Marks) -> Published:
        """The marks of a scope, and the servers of which one is not among the `known`, or missing.

        Raises:
            RegistryError: As `all_parts`.
        """

        def read(db: Connection) -> Published:
            marks = publication_queries.marks(db, scope)
            changed = {marks.get(one) or known[one] for one in marks.keys() ^ known.keys()}
            return marks, _parts(db, scope, changed)

        return self.database.read(read)

    def changes(self, own: Callable[[], object]) -> AsyncGenerator[None]:
        """As `protocols.ChangeFeed`, and whenever `own` is something else."""

        def newest(db: Connection) -> object:
            return publication_queries.all_marks(db), own()

        return database_changes(self.database, newest)


def _parts(connection: Connection, scope: str, servers: Collection[str]) -> list[ServerPart]:
    rows = publication_queries.published(connection, scope, servers) if servers else []
    slices: dict[str, list[ServerPart]] = {}
    for part in stored_parts(scope, rows):
        slices.setdefault(part.server, []).append(part)
    return [merged(some) for some in slices.values()]
