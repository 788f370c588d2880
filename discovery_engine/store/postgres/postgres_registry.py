"""The registry in a PostgreSQL database.

Beyond the registry in a file it has a feed of changes, and state that gateways share. It leaves the
integrity of decisions to the database.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from discovery_engine._util.batches import batches
from discovery_engine.store.postgres.database_feed import (
    database_changes,
    newest_change,
)
from discovery_engine.store.postgres.database_state import DatabaseState, state_of
from discovery_engine.store.postgres_gateways import PostgresGateways
from discovery_engine.store.records import (
    EVERY_SCOPE,
    AcceptanceRecord,
    ApprovalRecord,
    LossRecord,
    Record,
)
from discovery_engine.store.registry import Registry
from discovery_engine.store.tables import decision_table, gateway_table

if TYPE_CHECKING:
    from discovery_engine.store.postgres.postgres_database import PostgresDatabase
    from discovery_engine.store.postgres.timed_connection import TimedConnection
    from discovery_engine.store.records import DecisionExport
    from discovery_engine.store.statements import Connection
    from discovery_engine.store.tables.decision_table import DecisionTable

T = TypeVar("T")

_PING_TIMEOUT = 2.0  # seconds
# Bytes imported in one transaction: they take 0.2 s, and a transaction may take 5.
_IMPORT_BATCH_BYTES = 1_000_000
_ROW = 1_000  # bytes of a row, without the definition of a tool


class PostgresRegistry(Registry):
    """Connects at the first call; the caller has to `close` it."""

    most_scopes = 1000
    _are_verdicts_news = True
    gateways: PostgresGateways

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__()
        self.database = database
        self.search = self
        self.gateways = PostgresGateways(self, database.address.name)

    def state(self, *, has_secret: bool = False) -> DatabaseState:
        """Return the state of the database; see `state_of`."""
        return state_of(self.database, has_secret=has_secret)

    def ping(self) -> None:
        """Read the number of the newest decision, within two seconds.

        Raises:
            RegistryError: If it cannot be read in that time.
        """
        self.database.read(decision_table.newest, timeout=_PING_TIMEOUT)

    async def changes(self) -> AsyncGenerator[None]:
        relayed = self.gateways.note_relayed
        changes = database_changes(self.database, newest_change, on_relayed=relayed)
        async with aclosing(changes):
            async for _ in changes:
                self.gateways.note_change()
                yield

    def import_decisions(self, decisions: DecisionExport) -> bool:
        tables = decision_table.APPROVALS, decision_table.ACCEPTANCES
        trust, rest = list[Record](), list[Record]()
        for record in decisions.records:
            is_trust = isinstance(record, (ApprovalRecord, AcceptanceRecord))
            (trust if is_trust else rest).append(record)
        self.write(partial(decision_table.empty, tables=tables))
        for some in batches(trust, _size_of, most=_IMPORT_BATCH_BYTES):
            self.write(partial(decision_table.save, records=some))
        others = replace(decisions, records=tuple(rest))
        self._write_announced(partial(decision_table.replace, decisions=others, kept=tables))
        return True

    def report_loss(self, *, at: float) -> None:
        """Record a loss of decisions in every scope, found at Unix time `at`.

        Tools without an acceptance are then withheld until the owner acknowledges the loss.
        """

        def report(db: Connection, newest: int) -> int:
            return decision_table.save_loss(db, LossRecord(EVERY_SCOPE, at, number=newest + 1))

        self._decide(EVERY_SCOPE, report)

    def read(self, work: Callable[[TimedConnection], T]) -> T:
        return self.database.read(work)

    def write(self, work: Callable[[TimedConnection], T]) -> T:
        return self.database.write(work)

    def run_alone(self, work: Callable[[TimedConnection], T]) -> T:
        return self.database.run_alone(work)

    def _read_decisions(self, work: Callable[[TimedConnection], T]) -> T:
        return self.read(work)

    def _read_rows(
        self,
        work: Callable[[TimedConnection], T],
        table: DecisionTable,  # noqa: ARG002 - the database verifies its rows
        names: Collection[str],  # noqa: ARG002
    ) -> T:
        return self.read(work)

    def _write_decisions(
        self,
        work: Callable[[TimedConnection], tuple[T, int | None]],
        scopes: Iterable[str],  # noqa: ARG002 - there is no mark beside a database
    ) -> T:
        return self.database.write(work)[0]

    def _announce(self, connection: Connection) -> None:
        gateway_table.notify(connection)

    def close(self) -> None:
        self.database.close()


def _size_of(record: Record) -> int:
    return _ROW + len(record.definition) if isinstance(record, AcceptanceRecord) else _ROW
