"""The registry: what is kept between runs, and shared among gateways.

It keeps, for each configuration (its *scope*), the catalog as it was last seen and what its owner
decided, so that the next start answers before any upstream is connected. Calls block: code in an
event loop makes them in a thread. All of them raise `RegistryError` if the registry cannot be used.

    StoredReader      what commands answer from: snapshots, uses, written requests
    StoredRecords     eras, presets, requests of agents, leases, vectors, webhooks
    StoredQueue       which servers workers list next, and what they may write about them
    StoredCatalog     settings and catalog, as one snapshot
    StoredDecisions   approvals, acceptances, losses of either; registered servers, and switches

Each is written once over `store.statements`. A back-end has transactions, and the feed of changes.
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
    """The part of a registry that keeps decisions; each has the next number."""

    @abstractmethod
    def _read_decisions(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which may read all decisions, on a consistent snapshot."""

    @abstractmethod
    def _read_rows(
        self, work: Callable[[Connection], T], table: DecisionTable, names: Collection[str]
    ) -> T:
        """Run `work`, which reads the rows of a scope, or of a scope and a server, of a table."""

    @abstractmethod
    def _write_decisions(
        self, work: Callable[[Connection], tuple[T, int | None]], scopes: Iterable[str]
    ) -> T:
        """Write decisions of some scopes with `work`.

        It returns its result, and the number of the newest decision if it made any.
        """

    def newest_decision(self) -> int:
        """The number of the newest decision in any scope; each one has the next number."""
        return self.read(decision_table.newest)

    def decisions(self, scope: str) -> Decisions:
        """All approvals and acceptances of a scope, whether or not it has a snapshot."""
        return self._read_decisions(partial(decision_table.decisions, scope=scope))

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        """Return the approvals of `decisions`, without reading what was accepted."""
        read = partial(decision_table.approvals, scope=scope)
        return self._read_rows(read, decision_table.APPROVALS, [scope])

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        """Return what was accepted of one server, without reading the others."""
        read = partial(decision_table.accepted, scope=scope, server=server)
        return self._read_rows(read, decision_table.ACCEPTANCES, [scope, server])

    def accepted_since(self, scope: str, number: int) -> frozenset[str]:
        """The servers of which something was accepted after the decision of that number."""
        return self.read(partial(decision_table.accepted_since, scope=scope, number=number))

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        """All acceptances of a server's tools, in the order in which they were accepted."""
        return self.read(partial(decision_table.history, scope=scope, server=server))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        """Return the servers in the order in which they were registered."""
        read = partial(decision_table.servers, scope=scope)
        return self._read_rows(read, decision_table.SERVERS, [scope])

    def switches(self, scope: str) -> ServerSwitches:
        """Which servers are switched on or off by hand; all others are as their entries say."""
        read = partial(decision_table.switches, scope=scope)
        return self._read_rows(read, decision_table.SWITCHES, [scope])

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        """Add approvals; `at` is Unix time in seconds. No-op for those that are there already."""
        new = tuple(approvals)
        self._decide(scope, partial(decision_table.approve, scope=scope, new=new, at=at))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        """Drop all approvals of servers; returns how many there were."""
        names = tuple(servers)
        return self._decide(scope, lambda db, _: decision_table.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Add acceptances, which nothing ever drops; returns how many.

        With `if_new` only those of tools of which nothing was accepted before: if two processes
        see a tool for the first time at once, the first to write decides. None is added after a
        loss that the owner has not acknowledged.
        """
        new = tuple(found)
        accept = decision_table.accept_new if if_new else decision_table.accept
        work = partial(accept, scope=scope, acceptances=new, at=at)
        return self._decide(scope, work, is_first_sight=if_new) if new else 0

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, acceptances: Iterable[Acceptance], *, at: float
    ) -> int | None:
        """Do the same as `accept` with `if_new`; return None if the claim is not valid any more.

        `scope` is the scope of the decisions, which may differ in name from the scope of the jobs.
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
        """Add servers, all or none; one takes the place of another of its name."""
        new = tuple(servers)
        self._decide(scope, partial(decision_table.save_servers, scope=scope, servers=new))

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        """Drop servers; returns how many there were."""
        gone = tuple(names)
        return self._decide(scope, lambda db, _: decision_table.delete_servers(db, scope, gone))

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        """Set switches, or drop them with None; `at` is Unix time in seconds."""
        self._decide(scope, partial(decision_table.set_switches, scope=scope, wanted=wanted, at=at))

    def has_decisions(self, scope: str) -> bool:
        """Return whether anything is decided under a scope."""
        return self.read(lambda db: not decision_table.is_empty(db, scope))

    def take_over(self, scope: str, earlier: str, *, at: float) -> None:
        """Move what was decided under the earlier name of a configuration to its present one.

        What is decided under that already stays, and of a tool of which both accepted something
        only what both accepted counts.
        """
        work = partial(decision_table.take_over, scope=scope, earlier=earlier, at=at)
        while earlier != scope and self.has_decisions(earlier):
            self._decide(scope, work, is_first_sight=True)

    def note_new_scope(self, scope: str, *, at: float) -> None:
        """Note a loss if nothing is decided under a scope, but something is under others."""
        if self.newest_decision() and not self.has_decisions(scope):
            self._decide(scope, partial(decision_table.note_new_scope, scope=scope, at=at))

    def export_decisions(self, after: int | None = None) -> DecisionExport:
        """Return all decisions; with a number, only the acceptances that follow it."""
        return self._read_decisions(partial(decision_table.export, after=after))

    def _decide(
        self,
        scope: str,
        work: Callable[[Connection, int], N],
        *,
        is_first_sight: bool = False,  # noqa: ARG002 - for a registry that has a copy
    ) -> N:
        """Do `work`, given the number of the newest decision; it returns how many it made."""

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
    """Where tools can be searched; None if this registry is no database of PostgreSQL."""
    gateways: PostgresGateways | None = None
    """The state that gateways share; None if this is no database that they all may write."""

    @property
    def local(self) -> Registry:
        """The registry of this machine, for what no other one may share: eras."""
        return self

    @abstractmethod
    def changes(self) -> AsyncGenerator[None]:
        """Yield soon after another process has decided something, or had requests written.

        Of a registry that machines share also after it has saved what a server listed; of a file
        after a worker has.

        For ever.

        It yields once at first, for what was decided before it was called. Several decisions may
        be one change, and a change may turn out to be none or this process's own: who follows
        reads the decisions and compares. Unlike all else here it runs in the event loop; close it
        when it is not needed.
        """

    @abstractmethod
    def import_decisions(self, decisions: DecisionExport) -> bool:
        """Hold these decisions and no others, but for the acceptances that they follow.

        Returns False, and changes nothing, if these are not all that is held so far. A loss that is
        there counts until all are written.
        """
