"""The registry in a PostgreSQL database; `registry.protocols` has its contract.

What it has beside the registry in a file: decisions of which the database itself knows whether they
are whole, a feed of changes, and what gateways share.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.registry.postgres import trust_queries
from discovery_engine.registry.postgres.database_feed import (
    database_changes,
    newest_change,
    notify,
)
from discovery_engine.registry.postgres.database_state import DatabaseState, state_of
from discovery_engine.registry.postgres.postgres_decisions import PostgresDecisions
from discovery_engine.registry.postgres.postgres_gateways import PostgresGateways
from discovery_engine.registry.stored_catalog import StoredCatalog

if TYPE_CHECKING:
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.timed_connection import TimedConnection
    from discovery_engine.registry.statements import Connection as StatementConnection

T = TypeVar("T")

_PING_TIMEOUT = 2.0  # seconds


class PostgresRegistry(PostgresDecisions, StoredCatalog):
    """Opens the database with the first call; `close` it."""

    most_scopes = 1000
    _are_verdicts_news = True
    indexes = None
    """An index is read with `marshal`: see `protocols.IndexStore`."""
    health = None
    """Each call raises if the database does not answer; nothing waits."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__()
        self.database = database
        self.search = database
        self.gateways = PostgresGateways(database)

    def state(self, *, has_secret: bool = False) -> DatabaseState:
        """Return the state of the database; see `state_of`."""
        return state_of(self.database, has_secret=has_secret)

    def ping(self) -> None:
        """Read the number of the newest decision, and wait for it only briefly.

        Raises:
            RegistryError: If it cannot be read.
        """
        self.database.read(trust_queries.number, timeout=_PING_TIMEOUT)

    async def changes(self) -> AsyncGenerator[None]:
        relayed = self.gateways.note_relayed
        changes = database_changes(self.database, newest_change, on_relayed=relayed)
        async with aclosing(changes):
            async for _ in changes:
                self.gateways.note_change()
                yield

    def _read(self, work: Callable[[TimedConnection], T]) -> T:
        return self.database.read(work)

    def _write(self, work: Callable[[TimedConnection], T]) -> T:
        return self.database.write(work)

    def _announce(self, connection: StatementConnection) -> None:
        notify(connection)

    def close(self) -> None:
        self.database.close()
