"""Decisions of owners in SQLite: approvals, acceptances, and servers that stand in no file.

`registry.protocols` has their contracts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.registry.sqlite import decision_tables, server_tables
from discovery_engine.registry.tables import refresh_table
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.records import (
        AcceptanceRecord,
        DecisionExport,
        EffectiveDecisions,
        NewerDecisions,
        Record,
    )
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.registry.sqlite.database import Database, FileConnection


class SqliteDecisions:
    """The part of `SqliteRegistry` that needs nothing but the file and its mark."""

    _database: Database

    def newest_decision(self) -> int:
        return self._database.read_newest(decision_tables.newest)

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self._database.read_verified(
            lambda db, counts: decision_tables.approvals(db, scope)  # noqa: ARG005 - of others
        )

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self._database.read_verified(
            lambda db, counts: decision_tables.accepted(db, scope, server, counts)
        )

    def decisions(self, scope: str) -> Decisions:
        return self._database.read_decisions(lambda db: decision_tables.decisions(db, scope))

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        new_approvals = tuple(approvals)
        self._database.decide(
            lambda db: (None, decision_tables.approve(db, scope, new_approvals, at))
        )

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._database.decide(lambda db: decision_tables.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        if acceptances := tuple(found):
            accept = partial(
                decision_tables.accept, scope=scope, found=acceptances, at=at, if_new=if_new
            )
            return self._database.decide(lambda db: (len(new := accept(db)), new))
        return 0

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        acceptances = tuple(found)

        def accept(db: FileConnection) -> tuple[int | None, list[AcceptanceRecord]]:
            if not refresh_table.is_held(db, claim):
                return None, []
            new = decision_tables.accept(db, scope, acceptances, at, if_new=True)
            return len(new), new

        return self._database.decide(accept)

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self._database.read(lambda db: decision_tables.history(db, scope, server))

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        self._database.decide(lambda db: (None, decision_tables.acknowledge(db, scope, at)))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        return self._database.read_verified(
            lambda db, counts: server_tables.servers(db, scope)  # noqa: ARG005 - of others
        )

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        registrations = tuple(servers)
        self._database.decide(lambda db: (None, server_tables.save(db, scope, registrations)))

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = tuple(names)
        return self._database.decide(lambda db: server_tables.delete(db, scope, gone))

    def switches(self, scope: str) -> ServerSwitches:
        return self._database.read_verified(
            lambda db, counts: server_tables.switches(db, scope)  # noqa: ARG005 - of others
        )

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        self._database.decide(lambda db: (None, server_tables.switch(db, scope, wanted, at)))

    def export_decisions(self) -> DecisionExport:
        from discovery_engine.registry.records import DecisionExport  # noqa: PLC0415 - seldom

        def export(db: sqlite3.Connection) -> DecisionExport:
            stored = decision_tables.stored(db)
            return DecisionExport(stored.number, stored.effective, server_tables.marks(db))

        return self._database.read_decisions(export)

    def add_decisions(self, newer: NewerDecisions) -> bool:
        """Add what another registry decided since; False changes nothing: all of it is needed."""

        def add(db: sqlite3.Connection) -> tuple[bool, Sequence[Record]]:
            records = decision_tables.records_of(db, newer)
            if records:
                server_tables.set_marks(db, newer.export.marks)
            return records is not None, records or ()

        return self._database.decide(add)

    def import_decisions(self, decisions: DecisionExport) -> None:
        def write(db: sqlite3.Connection) -> tuple[int, EffectiveDecisions]:
            decision_tables.replace(db, decisions.effective)
            server_tables.set_marks(db, decisions.marks)
            return decisions.number, decisions.effective

        self._database.replace_decisions(write)
