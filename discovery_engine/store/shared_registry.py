"""A registry that gateways share, with a copy on this machine for the time it does not answer.

    database    what all gateways see
    copy        an SQLite file with what this machine last saw of it, and its search index
    local       the registry of the data folder: leases and eras, which are of this machine, and
                the settings, by which a start knows that there is a database

A decision is refused while the database does not answer, rather than accepted and lost. What is
seen for the first time meanwhile is remembered for this run, and accepted afterwards unless another
gateway has. Listings, vectors and counts of uses are written in the background, from a bounded
buffer: what is read never waits for them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from discovery_engine.config.files.location import own_catalog_key_of
from discovery_engine.errors import RegistryError, RegistryUnavailableError
from discovery_engine.store.failover import Failover
from discovery_engine.store.local_copy import LocalCopy
from discovery_engine.store.protocols import (
    AgentRequestStore,
    EraStore,
    LeaseStore,
    PresetStore,
    Registry,
    RegistryHealth,
)
from discovery_engine.store.refresh_queue import RefreshQueue
from discovery_engine.store.search_database import SearchDatabaseProxy
from discovery_engine.store.webhook_store import WebhookStore
from discovery_engine.store.write_buffer import WriteBuffer
from discovery_engine.trust.decisions import UNREAD, Decisions, with_accepted

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.store.postgres.postgres_gateways import PostgresGateways
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.sqlite.registry import SqliteRegistry
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools

C = TypeVar("C", bound=type)
T = TypeVar("T")

# Of the time that an operation has: so long a caller waits for its bookkeeping.
_BOOKKEEPING_TIME_SHARE = 0.1


def passes_on(through: str, *names: str | type) -> Callable[[C], C]:
    """Have a class pass methods on, by their names or as all of a protocol.

    Its method `through` is given a function that calls a store.
    """

    def decorate(cls: C) -> C:
        for name in (each for named in names for each in _methods(named)):
            setattr(cls, name, _passed_on(name, through))
        return cls

    return decorate


def _methods(named: str | type) -> Iterable[str]:
    if isinstance(named, str):
        return [named]
    return [name for name, part in vars(named).items() if isfunction(part) and name[0] != "_"]


def _passed_on(name: str, through: str) -> Callable[..., Any]:
    def pass_on(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self, through)(lambda store: getattr(store, name)(*args, **options))

    pass_on.__name__ = name
    return pass_on


@passes_on("_asked", RefreshQueue, WebhookStore, PresetStore, AgentRequestStore)
@passes_on("_asked", "save_requests", "forget_requests")
@passes_on("_here", EraStore, LeaseStore)
@passes_on("_read", "load_settings", "history", "vector_count", "uses", "requests_mark")
@passes_on("_read_decision", "approvals", "servers_mark", "registered_servers", "switches")
@passes_on("_decided", "approve", "revoke", "acknowledge_loss")
@passes_on("_decided", "save_servers", "delete_servers", "set_switches")
class SharedRegistry(Registry):
    """Made by `backends.open_shared`; closes the three that it was given.

    The queue, webhooks, presets and requests of agents are in the database alone: what may be
    written of them depends on what is there at that moment, so none of it can wait.

    Args:
        remote: The database.
        copy: What this machine last saw of it.
        local: The registry of the data folder.
        folder: That of the copy.
        clock: Seconds from any beginning.
    """

    def __init__(
        self,
        remote: PostgresRegistry,
        copy: SqliteRegistry,
        local: SqliteRegistry,
        *,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._remote = remote
        self._copy = LocalCopy(remote, copy)
        self._local = local
        self._failover = Failover(
            remote, self._copy, folder=folder, on_return=self._resume, clock=clock
        )
        self.availability = self._failover.availability
        patience = remote.database.timeout * _BOOKKEEPING_TIME_SHARE
        self._waiting = WriteBuffer(self._send, self.availability, patience=patience)
        ask = self._failover.ask_if_available
        self._search = SearchDatabaseProxy(lambda call: ask(lambda store: call(store.search)))
        remote.ask_through(self._search)

    @property
    def search(self) -> SearchDatabase:
        return self._search

    @property
    def gateways(self) -> PostgresGateways:
        return self._remote.gateways

    # What all gateways see; the copy while the database does not answer.

    def load(self, scope: str) -> Snapshot | None:
        saves = self._copy.saves
        snapshot, is_live = self._failover.read(lambda store: store.load(scope))
        if snapshot and is_live:
            self._copy.copy_snapshot(scope, snapshot, saves)
        return snapshot

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        waiting = self._waiting.unsaved_servers(scope)
        parts, is_live = self._failover.read(lambda store: store.changed_parts(scope))
        if parts and is_live:
            self._copy.write(lambda copy: copy.save_parts(scope, parts, revision=0))
            # What this gateway listed before may be written by now, or still: it must not stay.
            for part in parts:
                if part.server in waiting:
                    self._waiting.save_parts(
                        scope, [part], revision=0, decided=None, keep_newer=True
                    )
        return parts

    def newest_decision(self) -> int:
        number, is_live = self._failover.read(
            lambda store: store.newest_decision(), is_decision=True
        )
        if not is_live:
            if (missed := self._copy.missed_decision) is not None:
                return missed
            # Never a number of the database: those of others, made meanwhile, must be read.
            seen = self._waiting.first_seen_count
            return -1 - number - seen if seen else number
        self._copy.copy_decisions_later(number)
        return number

    def decisions(self, scope: str) -> Decisions:
        seen = self._waiting.first_seen(scope)
        decisions, _ = self._failover.read_decision(lambda store: store.decisions(scope))
        return _with_first_seen(decisions, seen)

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        seen = [
            acceptance
            for acceptance in self._waiting.first_seen(scope)
            if acceptance.server == server
        ]
        tools, _ = self._failover.read_decision(lambda store: store.accepted(scope, server))
        return _with_first_seen(Decisions(accepted={server: tools}), seen).accepted[server]

    def lost_at(self, scope: str) -> float | None:
        lost, is_live = self._failover.read_decision(lambda store: store.lost_at(scope))
        # Before the first answer of the database it is unknown what its owner withholds.
        return UNREAD if not (is_live or self._failover.has_met) else lost

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        vectors, is_live = self._failover.read(lambda store: store.vectors(model, digests))
        if is_live:
            self._copy.note_vectors(model, vectors)
        return vectors

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        requests, is_live = self._failover.read(lambda store: store.written_requests())
        if is_live:
            self._copy.copy_requests(requests)
        return requests

    def changes(self) -> AsyncGenerator[None]:
        return self._failover.changes()

    # Bookkeeping, which may wait.

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        self._copy.skip_older_snapshots()
        self._local.save_settings(own_catalog_key_of(settings), settings)

        def save(store: Registry) -> None:
            store.save_settings(scope, settings, keep_others=keep_others)

        self._copy.write(save)
        self._waiting.add("catalog", ("settings", scope), save)

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        new = tuple(parts)

        def save(store: Registry | WriteBuffer) -> None:
            store.save_parts(scope, new, revision=revision, decided=decided, keep_newer=keep_newer)

        self._copy.skip_older_snapshots()
        self._copy.write(save)
        save(self._waiting)

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        new = dict(vectors)

        def save(store: Registry) -> None:
            store.save_vectors(scope, model, new)

        self._copy.write(save)
        self._waiting.add("vectors", ("save", scope, model, frozenset(new)), save)

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        used = frozenset(digests)

        def keep(store: Registry) -> None:
            store.keep_vectors(scope, model, used)

        self._copy.save_noted_vectors(scope, model, used)
        self._copy.write(keep)
        self._waiting.add("vectors", ("keep", scope, model, used), keep)
        return 0

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        def count(store: Registry) -> None:
            store.count_use(scope, key, at=at)

        self._copy.write(count)
        self._waiting.add("uses", object(), count)  # each counts: none replaces another

    # Decisions and all else that is acknowledged.

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else tuple(servers)
        self._copy.skip_older_snapshots()
        count = self._asked(lambda store: store.forget(scope, names))
        self._waiting.forget(scope, names)
        self._copy.write(lambda copy: copy.forget(scope, names))
        return count

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        new = tuple(found)

        def accept(store: Registry) -> int:
            return store.accept(scope, new, at=at, if_new=if_new)

        if not if_new:
            return self._decided(accept)
        if self._failover.may_ask():
            with suppress(RegistryError):
                count = self._asked(accept)
                self._copy.copy_decisions_later()
                return count
        return self._accept_for_now(scope, new, at)

    @property
    def shared_leases(self) -> LeaseStore:
        # Without a lease one goes on alone: waiting for a silent database each time is of no use.
        return _SharedLeases(self._failover.ask_if_available)  # type: ignore[abstract] # by `passes_on`

    @property
    def health(self) -> RegistryHealth:
        error, since = self.availability.error, self.availability.since
        waiting = self._waiting
        return RegistryHealth(error, since, len(waiting), waiting.dropped, waiting.set_aside)

    # What is of this machine.

    @property
    def indexes(self) -> SqliteRegistry:
        return self._copy.store

    def close(self) -> None:
        self._waiting.close(self._remote.database.timeout)
        self._copy.finish()
        for store in (self._remote, self._copy.store, self._local):
            store.close()

    def _asked(self, ask: Callable[[Registry], T]) -> T:
        return self._failover.ask(ask)

    def _here(self, ask: Callable[[Registry], T]) -> T:
        return ask(self._local)

    def _read(self, ask: Callable[[Registry], T]) -> T:
        return self._failover.read(ask)[0]

    def _read_decision(self, ask: Callable[[Registry], T]) -> T:
        return self._failover.read_decision(ask)[0]

    def _resume(self) -> None:
        self._waiting.resume()

    def _send(self, write: Callable[[Registry], object]) -> bool:
        """Write, unless the database is not to be tried now.

        Raises:
            RegistryError: As `Failover.ask`.
        """
        if not self._failover.may_ask():
            return False
        self._asked(write)
        return True

    def _decided(self, decide: Callable[[Registry], T]) -> T:
        try:
            result = self._asked(decide)
        except RegistryUnavailableError as error:
            message = f"the decision cannot be kept: {error.message}"
            raise type(error)(message, hint=error.hint) from error
        # At once, so that it is in force here if the database goes away next.
        with suppress(RegistryError):
            self._copy.copy_decisions()
        return result

    def _accept_for_now(self, scope: str, found: Iterable[Acceptance], at: float) -> int:
        self._copy.require_decisions()
        tools_of = self._copy.store.accepted
        new = [
            acceptance
            for acceptance in found
            if acceptance.tool not in tools_of(scope, acceptance.server)
        ]
        return self._waiting.accept(scope, new, at)


@passes_on("_asked", LeaseStore)
class _SharedLeases(LeaseStore):
    """The leases in the database, of which no copy knows anything."""

    def __init__(self, asked: Callable[[Callable[[Registry], Any]], Any]) -> None:
        self._asked = asked


def _with_first_seen(decisions: Decisions, seen: Iterable[Acceptance]) -> Decisions:
    """With what this gateway accepted of tools about which nothing is decided."""
    tools = decisions.accepted
    new = [
        acceptance for acceptance in seen if acceptance.tool not in tools.get(acceptance.server, ())
    ]
    return with_accepted(decisions, new) if new else decisions
