"""The registry: the state that outlives a run, and that gateways share.

For each configuration (its *scope*) it stores the last catalog and the owner's decisions, so that
the next start answers before any upstream is connected. All methods block, so code in an event loop
calls them in a thread. All of them raise `RegistryError` if the registry is not usable.

    StoredReader      snapshots, uses and written requests, for commands that only read
    StoredRecords     eras, presets, requests of agents, leases, vectors, webhooks
    StoredQueue       the queue from which workers take servers to list
    StoredCatalog     settings and catalog, as one snapshot
    StoredDecisions   approvals, acceptances, losses of either, registered servers, switches, rules

Each is written once over `store.statements`. A back-end adds transactions and the feed of changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.store.records import LossRecord
from discovery_engine.store.stored_catalog import StoredCatalog
from discovery_engine.store.stored_records import StoredRecords
from discovery_engine.store.tables import decision_table, refresh_table
from discovery_engine.store.tables.decision_table import DecisionTable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from discovery_engine.store.postgres_gateways import PostgresGateways
    from discovery_engine.store.records import DecisionExport
    from discovery_engine.store.refresh_job import RefreshClaim
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.store.statements import Connection
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

N = TypeVar("N", int, int | None)
T = TypeVar("T")


class StoredDecisions(StoredRecords):
    """The part of a registry that stores decisions; each new one gets the next number."""

    @abstractmethod
    def _read_decisions(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which reads any decisions, on a consistent snapshot; return its result."""

    @abstractmethod
    def _read_rows(
        self, work: Callable[[Connection], T], table: DecisionTable, names: Collection[str]
    ) -> T:
        """Run `work`, which reads rows of one table; return its result.

        `names` is the scope of these rows, or the scope and the server.
        """

    @abstractmethod
    def _write_decisions(
        self, work: Callable[[Connection], tuple[T, int | None]], scopes: Iterable[str]
    ) -> T:
        """Run `work`, which writes decisions of `scopes`, in a transaction; return its result.

        `work` returns the result and the number of its newest decision, None if it made none.
        """

    def newest_decision(self) -> int:
        """Return the number of the newest decision in any scope, 0 if there is none."""
        return self.read(decision_table.newest)

    def decisions(self, scope: str) -> Decisions:
        """Return all approvals and acceptances of a scope, which may have no snapshot."""
        return self._read_decisions(partial(decision_table.decisions, scope=scope))

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        """Return the approved identities by server; unlike `decisions` it reads no acceptances."""
        read = partial(decision_table.approvals, scope=scope)
        return self._read_rows(read, decision_table.APPROVALS, [scope])

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        """Return the accepted tools of one server, without reading those of others."""
        read = partial(decision_table.accepted, scope=scope, server=server)
        return self._read_rows(read, decision_table.ACCEPTANCES, [scope, server])

    def accepted_since(self, scope: str, number: int) -> frozenset[str]:
        """Return the servers that have an acceptance with a number higher than `number`."""
        return self.read(partial(decision_table.accepted_since, scope=scope, number=number))

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        """Return all acceptances of a server's tools, the oldest first."""
        return self.read(partial(decision_table.history, scope=scope, server=server))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        """Return the servers in the order in which they were registered."""
        read = partial(decision_table.servers, scope=scope)
        return self._read_rows(read, decision_table.SERVERS, [scope])

    def switches(self, scope: str) -> ServerSwitches:
        """Return the switches by server; a server without one follows its entry's `enabled`."""
        read = partial(decision_table.switches, scope=scope)
        return self._read_rows(read, decision_table.SWITCHES, [scope])

    def shared_rules(self, scope: str) -> Mapping[str, str]:
        """Return the rules of all who share the registry, as YAML by section."""
        read = partial(decision_table.rules, scope=scope)
        return self._read_rows(read, decision_table.RULES, [scope])

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        """Add approvals; a no-op for existing ones. `at` is Unix time in seconds."""
        new = tuple(approvals)
        self._decide(scope, partial(decision_table.approve, scope=scope, new=new, at=at))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        """Delete all approvals of servers; return their number."""
        names = tuple(servers)
        return self._decide(scope, lambda db, _: decision_table.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Add acceptances, which are never deleted; return how many were added.

        With `if_new`, tools that have an acceptance already are skipped: if two processes see a new
        tool at the same time, the first to write decides. Then also none is added after a loss that
        the owner has not acknowledged. `at` is Unix time in seconds.
        """
        new = tuple(found)
        accept = decision_table.accept_new if if_new else decision_table.accept
        work = partial(accept, scope=scope, acceptances=new, at=at)
        return self._decide(scope, work, is_first_sight=if_new) if new else 0

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, acceptances: Iterable[Acceptance], *, at: float
    ) -> int | None:
        """Do the same as `accept` with `if_new`; a no-op that returns None if the claim has ended.

        `scope` is the scope of the decisions, which may differ from the scope of the job.
        """
        new = tuple(acceptances)

        def accept(db: Connection, newest: int) -> int | None:
            is_held = refresh_table.is_held(db, claim)
            return decision_table.accept_new(db, newest, scope, new, at) if is_held else None

        return self._decide(scope, accept, is_first_sight=True)

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        """Allow acceptance at first sight again; no-op if nothing was lost."""

        def acknowledge(db: Connection, newest: int) -> int:
            if (lost := decision_table.lost_at(db, scope)) is None:
                return 0
            return decision_table.save_loss(db, LossRecord(scope, lost, float(at), newest + 1))

        self._decide(scope, acknowledge)

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        """Add servers, all or none; one with the name of a registered server replaces it."""
        new = tuple(servers)
        self._decide(scope, partial(decision_table.save_servers, scope=scope, servers=new))

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        """Delete registered servers; return how many there were."""
        gone = tuple(names)
        return self._decide(scope, lambda db, _: decision_table.delete_servers(db, scope, gone))

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        """Set switches by server, or delete them with None; `at` is Unix time in seconds."""
        self._decide(scope, partial(decision_table.set_switches, scope=scope, wanted=wanted, at=at))

    def set_rules(
        self, scope: str, texts: Mapping[str, str], *, before: Mapping[str, str], at: float
    ) -> bool:
        """Replace shared rules by section, with an empty text by none; `at` is as above.

        If one of these sections is not as in `before`, return False and change nothing.
        """
        work = partial(decision_table.set_rules, scope=scope, texts=texts, before=before, at=at)
        return self._decide(scope, work) > 0

    def has_decisions(self, scope: str) -> bool:
        """Return whether a scope has any decision; a loss is none."""
        return self.read(lambda db: not decision_table.is_empty(db, scope))

    def take_over(self, scope: str, earlier: str, *, at: float) -> None:
        """Move the decisions of a configuration from its earlier scope to its present one.

        Decisions under the present scope take precedence. For a tool with acceptances under both,
        only the definitions that both accept remain accepted. `at` is Unix time in seconds.
        """
        work = partial(decision_table.take_over, scope=scope, earlier=earlier, at=at)
        while earlier != scope and self.has_decisions(earlier):
            self._decide(scope, work, is_first_sight=True)

    def note_new_scope(self, scope: str, *, at: float) -> None:
        """Record a loss if the scope has no decision, while others have some."""
        if self.newest_decision() and not self.has_decisions(scope):
            self._decide(scope, partial(decision_table.note_new_scope, scope=scope, at=at))

    def export_decisions(self, after: int | None = None) -> DecisionExport:
        """Return all decisions; with `after`, only the acceptances with a higher number."""
        return self._read_decisions(partial(decision_table.export, after=after))

    def _decide(
        self,
        scope: str,
        work: Callable[[Connection, int], N],
        *,
        is_first_sight: bool = False,  # noqa: ARG002 - for a registry that has a copy
    ) -> N:
        """Run `work` in a transaction, announce its decisions, and return its result.

        It is passed the number of the newest decision, and returns how many decisions it made: 0 or
        None for none.
        """

        def decide(db: Connection) -> tuple[N, int | None]:
            newest = decision_table.locked_newest(db)
            count = work(db, newest)
            if not count:
                return count, None
            decision_table.set_newest(db, newest + count)
            self._announce(db)
            return count, newest + count

        return self._write_decisions(decide, [scope])


class Registry(StoredCatalog, StoredDecisions):
    search: SearchDatabase | None = None
    """The search in the database; None if this registry is not in PostgreSQL."""
    gateways: PostgresGateways | None = None
    """The state that gateways share; None if they have no database in common."""

    @property
    def local(self) -> Registry:
        """The registry for state of this machine that is not shared: eras."""
        return self

    @abstractmethod
    def changes(self) -> AsyncGenerator[None]:
        """Yield soon after another process has written decisions or requests, without end.

        A shared registry also yields after another process has saved a listing, a file after a
        worker has.

        The first value comes at once, for earlier changes. One value may stand for several changes,
        for none, or for one of this process, so the caller reads the registry and compares. Unlike
        the other methods this one runs in the event loop; close it after use.
        """

    @abstractmethod
    def import_decisions(self, decisions: DecisionExport) -> bool:
        """Replace all stored decisions; if `decisions.after` is set, older acceptances stay.

        Return False, and change nothing, if the stored decisions are not those that the export
        continues: their newest number must be `after`, and their newest acceptance `last`. A stored
        loss stays in effect until everything is written.
        """
