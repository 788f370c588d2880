"""Decisions of owners in PostgreSQL: approvals, acceptances, and servers that stand in no file.

`registry.protocols` has their contracts. Each decision has the next number, by which the other
gateways see that there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from discovery_engine._util.batches import batches
from discovery_engine.registry.postgres import (
    registered_queries,
    trust_queries,
)
from discovery_engine.registry.postgres.database_feed import announced, notify
from discovery_engine.registry.records import EVERY_SCOPE, NewerDecisions
from discovery_engine.registry.tables import refresh_table

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.timed_connection import TimedConnection
    from discovery_engine.registry.records import AcceptanceRecord, DecisionExport
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

T = TypeVar("T")

# Bytes that are imported in one transaction: 0.2 s of the 5 that it has.
_IMPORT_BATCH_BYTES = 1_000_000
_ROW = 1_000  # bytes that a row costs, beside the definition of a tool
_BEFORE_ALL = -(2**62)  # what was imported may have a number below 0


class PostgresDecisions:
    """The part of `PostgresRegistry` that needs nothing but the database."""

    database: PostgresDatabase

    def newest_decision(self) -> int:
        return self.database.read(trust_queries.number)

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self.database.read(lambda db: trust_queries.approvals(db, scope))

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self.database.read(lambda db: trust_queries.accepted(db, scope, server))

    def decisions(self, scope: str) -> Decisions:
        return self.database.read(lambda db: trust_queries.decisions(db, scope))

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        new = tuple(approvals)

        def approve(db: Connection, number: int) -> tuple[None, int]:
            return None, trust_queries.approve(db, scope, new, at, number)

        self._decide(approve)

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._decide(lambda db, _: trust_queries.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        new = tuple(found)

        def accept(db: Connection, number: int) -> tuple[int, int]:
            count = trust_queries.accept(db, scope, new, at, number, if_new=if_new)
            return count, count

        return self._decide(accept) if new else 0

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        new = tuple(found)

        def accept(db: TimedConnection, number: int) -> tuple[int | None, int]:
            if not refresh_table.is_held(db, claim):
                return None, 0
            count = trust_queries.accept(db, scope, new, at, number, if_new=True)
            return count, count

        return self._decide(accept)

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self.database.read(lambda db: trust_queries.history(db, scope, server))

    def lost_at(self, scope: str) -> float | None:
        return self.database.read(lambda db: trust_queries.lost_at(db, scope))

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        def acknowledge(db: Connection, _: int) -> tuple[None, int]:
            if (lost := trust_queries.lost_at(db, scope)) is None:
                return None, 0
            trust_queries.save_loss(db, scope, lost, at)
            return None, 1

        self._decide(acknowledge)

    def servers_mark(self, scope: str) -> str:
        return self.database.read(lambda db: registered_queries.mark(db, scope))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        return self.database.read(lambda db: registered_queries.servers(db, scope))

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        registrations = tuple(servers)

        def save(db: Connection, number: int) -> tuple[None, int]:
            return None, registered_queries.save(db, scope, registrations, number)

        self._decide(save)

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = tuple(names)

        def delete(db: Connection, _: int) -> tuple[int, int]:
            count = registered_queries.delete(db, scope, gone)
            return count, count

        return self._decide(delete)

    def switches(self, scope: str) -> ServerSwitches:
        return self.database.read(lambda db: registered_queries.switches(db, scope))

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        def switch(db: Connection, _: int) -> tuple[None, int]:
            return None, registered_queries.switch(db, scope, wanted, at)

        self._decide(switch)

    def export_decisions(self) -> DecisionExport:
        return self.database.read(partial(trust_queries.export, after=_BEFORE_ALL))

    def newer_decisions(self, since: int) -> NewerDecisions:
        last = self.database.read(partial(trust_queries.last_accepted, at_most=since))
        decisions = self.database.read(partial(trust_queries.export, after=since))
        return NewerDecisions(since, last, decisions)

    def import_decisions(self, decisions: DecisionExport) -> None:
        write, effective = self.database.write, decisions.effective
        approvals, acceptances = effective.approvals.values(), effective.acceptances.values()
        write(trust_queries.drop_trust)
        for approved in batches(enumerate(approvals), lambda _: _ROW, most=_IMPORT_BATCH_BYTES):
            write(partial(trust_queries.add_approvals, approved=approved))
        first = 1 - len(acceptances) + decisions.number
        for accepted in batches(enumerate(acceptances, first), _size_of, most=_IMPORT_BATCH_BYTES):
            write(partial(trust_queries.add_acceptances, accepted=accepted))
        # A loss that is there counts until now.
        write(announced(lambda db: trust_queries.replace_rest(db, decisions)))

    def report_loss(self, *, at: float) -> None:
        """Withhold, in every scope, what is not known to be accepted, until its owner agrees."""

        def report(db: Connection, _: int) -> tuple[None, int]:
            trust_queries.save_loss(db, EVERY_SCOPE, at, None)
            return None, 1

        self._decide(report)

    def _decide(self, work: Callable[[TimedConnection, int], tuple[T, int]]) -> T:
        """Do `work`, given the number of the newest decision; it returns how many it made."""

        def decide(db: TimedConnection) -> T:
            newest = trust_queries.lock_number(db)
            result, count = work(db, newest)
            if count:
                trust_queries.set_number(db, newest + count)
                notify(db)
            return result

        return self.database.write(decide)


def _size_of(numbered: tuple[int, AcceptanceRecord]) -> int:
    return _ROW + len(numbered[1].acceptance.definition)
