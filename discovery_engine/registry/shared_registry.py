"""A registry that gateways share, with a copy on this machine for the time it does not answer.

    database    what all gateways see
    copy        an SQLite file with what this machine last saw of it, and its search index
    local       the registry of the data folder: leases and eras, which are of this machine, and
                the settings, by which a start knows that there is a database

A decision is refused while the database does not answer, rather than accepted and lost. What is
seen for the first time meanwhile is remembered for this run, and accepted afterwards unless another
gateway has; listings, vectors and counts of uses wait in a bounded outbox.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.config.files.location import own_catalog_key_of
from discovery_engine.errors import RegistryError, RegistryUnavailableError
from discovery_engine.registry.availability import Availability
from discovery_engine.registry.outbox import Outbox
from discovery_engine.registry.protocols import RegistryHealth
from discovery_engine.trust.decisions import Decisions, with_accepted

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.protocols import Registry, Snapshot
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.registry.sqlite.registry import SqliteRegistry
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.search.usage import UseCount
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MET = "met"  # beside the copy: the database has answered once, so the copy is of something


class SharedRegistry:
    """Made by `backends.open_shared`; closes the three that it was given.

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
        self._copy = copy
        self._local = local
        self._met = folder / _MET
        self.availability = Availability(remote.database.address.name, clock)
        self.outbox = Outbox()
        self._uses = Outbox()
        self._delivery = threading.Lock()
        self._first_seen: dict[tuple[str, str, str], tuple[Acceptance, float]] = {}
        """What was accepted at first sight and is not written yet: by scope, server and tool."""
        self._copied = copy.newest_decision()
        """The number of the newest decision that the copy has."""
        self._fetched: dict[str, dict[bytes, bytes]] = {}
        """Vectors by model that came from the database, until a scope says that it uses them."""
        self._saves = 0
        """How often this process has saved anything of a catalog."""
        self._copying = threading.Lock()
        self._is_copying = False
        """Whether copying the decisions is queued."""
        self._background: ThreadPoolExecutor | None = None
        self._has_met = self._met.exists()
        self._opened_at = time.time()

    # What all gateways see; the copy while the database does not answer.

    def load(self, scope: str) -> Snapshot | None:
        saves = self._saves
        snapshot, is_live = self._found(lambda store: store.load(scope))
        if snapshot and is_live:
            self._later(lambda: self._copy_snapshot(scope, snapshot, saves))
        return snapshot

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        if len(self.outbox):
            return ()  # what this gateway listed last waits still, and would be undone
        parts = self._read(lambda store: store.changed_parts(scope))
        if parts:
            self._in_copy(lambda copy: copy.save_parts(scope, parts, revision=0))
        return parts

    def load_settings(self, scope: str) -> Settings | None:
        return self._read(lambda store: store.load_settings(scope))

    def newest_decision(self) -> int:
        number, is_live = self._found(lambda store: store.newest_decision())
        if not is_live:
            # Never a number of the database: those of others, made meanwhile, must be read.
            return -1 - number - len(self._first_seen) if self._first_seen else number
        if number != self._copied:
            self._later(self._copy_decisions)
        return number

    def decisions(self, scope: str) -> Decisions:
        found, is_live = self._found(lambda store: store.decisions(scope))
        return found if is_live else with_accepted(found, self._seen(scope))

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self._read(lambda store: store.approvals(scope))

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        found, is_live = self._found(lambda store: store.accepted(scope, server))
        if is_live:
            return found
        seen = [one for one in self._seen(scope) if one.server == server]
        return with_accepted(Decisions(accepted={server: found}), seen).accepted[server]

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self._read(lambda store: store.history(scope, server))

    def lost_at(self, scope: str) -> float | None:
        lost, is_live = self._found(lambda store: store.lost_at(scope))
        # Without having met the database nobody knows what its owner withholds.
        return self._opened_at if not (is_live or self._has_met) else lost

    def servers_mark(self, scope: str) -> str:
        return self._read(lambda store: store.servers_mark(scope))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        return self._read(lambda store: store.registered_servers(scope))

    def switches(self, scope: str) -> ServerSwitches:
        return self._read(lambda store: store.switches(scope))

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        found, is_live = self._found(lambda store: store.vectors(model, digests))
        if is_live:
            self._fetched.setdefault(model, {}).update(found)
        return found

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return self._read(lambda store: store.uses(scope))

    def requests_mark(self) -> str:
        return self._read(lambda store: store.requests_mark())

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        found, is_live = self._found(lambda store: store.written_requests())
        if is_live:
            self._later(lambda: self._copy_requests(found))
        return found

    async def changes(self) -> AsyncGenerator[None]:
        async with aclosing(self._remote.changes()) as changes:
            async for _ in changes:
                self.availability.retry_now()
                yield

    # Bookkeeping, which may wait.

    def save_settings(self, scope: str, settings: Settings) -> None:
        self._saves += 1
        self._local.save_settings(own_catalog_key_of(settings), settings)
        self._kept(("settings", scope), lambda store: store.save_settings(scope, settings))

    def save_parts(
        self, scope: str, parts: Iterable[ServerPart], *, revision: int, decided: int | None = None
    ) -> None:
        new = tuple(parts)

        def save(store: Registry) -> None:
            store.save_parts(scope, new, revision=revision, decided=decided)

        self._saves += 1
        self._in_copy(save)
        if not len(self.outbox) and self.availability.may_try():
            with suppress(RegistryError):
                return self._asked(save)
        for part in new:
            self._add_part(scope, part, revision)
        return None

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        new = dict(vectors)
        key = "vectors", scope, model, frozenset(new)
        self._kept(key, lambda store: store.save_vectors(scope, model, new))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        used = frozenset(digests)
        fetched = self._fetched.pop(model, {})
        found = {digest: data for digest, data in fetched.items() if digest in used}
        self._in_copy(lambda copy: copy.save_vectors(scope, model, found))
        self._kept(("kept", scope), lambda store: store.keep_vectors(scope, model, used))
        return 0

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        def count(store: Registry) -> None:
            store.count_use(scope, key, at=at)

        self._in_copy(count)
        self._uses.add((scope, key, object()), count)
        self._try_to_deliver()

    # Decisions and all else that is acknowledged.

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else tuple(servers)
        self._saves += 1
        count = self._asked(lambda store: store.forget(scope, names))
        self._in_copy(lambda copy: copy.forget(scope, names))
        return count

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        new = tuple(approvals)
        self._decided(lambda store: store.approve(scope, new, at=at))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._decided(lambda store: store.revoke(scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        new = tuple(found)

        def accept(store: Registry) -> int:
            return store.accept(scope, new, at=at, if_new=if_new)

        if not if_new:
            return self._decided(accept)
        if self.availability.may_try():
            with suppress(RegistryError):
                count = self._asked(accept)
                self._later(self._copy_decisions)
                return count
        return self._accept_for_now(scope, new, at)

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        self._decided(lambda store: store.acknowledge_loss(scope, at=at))

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        new = tuple(servers)
        self._decided(lambda store: store.save_servers(scope, new))

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = tuple(names)
        return self._decided(lambda store: store.delete_servers(scope, gone))

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        self._decided(lambda store: store.set_switches(scope, wanted, at=at))

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        new = tuple(written)
        self._asked(lambda store: store.save_requests(new))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        return self._asked(lambda store: store.forget_requests(tools))

    def presets(self, scope: str) -> tuple[Preset, ...]:
        return self._asked(lambda store: store.presets(scope))

    def save_preset(self, scope: str, preset: Preset) -> None:
        self._asked(lambda store: store.save_preset(scope, preset))

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        return self._asked(lambda store: store.delete_preset(scope, key))

    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        return self._asked(lambda store: store.agent_requests(scope))

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        self._asked(lambda store: store.save_agent_request(scope, request))

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        return self._asked(lambda store: store.replace_agent_request(scope, known, new))

    @property
    def health(self) -> RegistryHealth:
        waiting = len(self.outbox) + len(self._uses) + len(self._first_seen)
        dropped = self.outbox.dropped + self._uses.dropped
        return RegistryHealth(self.availability.error, self.availability.since, waiting, dropped)

    # What is of this machine.

    @property
    def indexes(self) -> SqliteRegistry:
        return self._copy

    def load_era(self, connection: str) -> JSONObject | None:
        return self._local.load_era(connection)

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self._local.save_era(connection, era)

    def lease(self, name: str) -> Lease | None:
        return self._local.lease(name)

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        return self._local.acquire_lease(name, holder, instead_of=instead_of)

    def renew_lease(self, lease: Lease) -> Lease | None:
        return self._local.renew_lease(lease)

    def release_lease(self, lease: Lease) -> None:
        self._local.release_lease(lease)

    def close(self) -> None:
        if len(self.outbox) or len(self._uses) or self._first_seen:
            self._try_to_deliver()
        with self._delivery:
            background, self._background = self._background, None
        if background:
            background.shutdown()
        for store in (self._remote, self._copy, self._local):
            store.close()

    def _found(self, ask: Callable[[Registry], T]) -> tuple[T, bool]:
        """What the database has, or the copy while it does not answer; and which it was."""
        if self.availability.may_try():
            with suppress(RegistryError):
                return self._asked(ask), True
        return ask(self._copy), False

    def _read(self, ask: Callable[[Registry], T]) -> T:
        found, _ = self._found(ask)
        return found

    def _asked(self, ask: Callable[[Registry], T]) -> T:
        """What the database has.

        Raises:
            RegistryError: If it does not answer, or refuses.
        """
        try:
            if was_out := self.availability.error is not None:
                self._deliver()  # first, so that what is read then has it
            found = ask(self._remote)
        except RegistryError as error:
            self.availability.failed(error)
            raise
        self.availability.answered()
        if not self._has_met:
            self._has_met = True
            with suppress(OSError):
                self._met.touch()
        if was_out:
            self._later(self._copy_decisions)
        return found

    def _decided(self, decide: Callable[[Registry], T]) -> T:
        try:
            result = self._asked(decide)
        except RegistryUnavailableError as error:
            message = f"the decision cannot be kept: {error.message}"
            raise RegistryUnavailableError(message, hint=error.hint) from error
        # At once, so that it is in force here if the database goes away next.
        with suppress(RegistryError):
            self._copy_decisions()
        return result

    def _kept(self, key: tuple[object, ...], write: Callable[[Registry], object]) -> None:
        self._in_copy(write)
        self.outbox.add(key, write)
        self._try_to_deliver()

    def _add_part(self, scope: str, part: ServerPart, revision: int) -> None:
        def save(store: Registry) -> None:
            store.save_parts(scope, [part], revision=revision)

        self.outbox.add(("part", scope, part.server), save)

    def _accept_for_now(self, scope: str, found: Iterable[Acceptance], at: float) -> int:
        count = 0
        for one in found:
            key = scope, one.server, one.tool
            if key in self._first_seen or one.tool in self._copy.accepted(scope, one.server):
                continue
            self._first_seen[key] = one, at
            count += 1
        return count

    def _seen(self, scope: str) -> list[Acceptance]:
        return [one for (of, *_), (one, _) in list(self._first_seen.items()) if of == scope]

    def _try_to_deliver(self) -> None:
        """Write what waits, if the database answers."""
        if self.availability.may_try():
            with suppress(RegistryError):
                self._asked(lambda _: self._deliver())

    def _deliver(self) -> None:
        """Write what waits.

        Raises:
            RegistryError: If the database does not answer.
        """
        with self._delivery:
            for key, (one, at) in list(self._first_seen.items()):
                self._remote.accept(key[0], [one], at=at, if_new=True)
                del self._first_seen[key]
            self.outbox.deliver(self._remote)
            self._uses.deliver(self._remote)

    def _later(self, work: Callable[[], object]) -> None:
        """Bring the copy up to date, without keeping anybody waiting."""
        if work == self._copy_decisions:
            if self._is_copying:
                return  # what is queued copies all decisions until then
            self._is_copying = True

        def run() -> None:
            try:
                work()
            except RegistryError as error:
                logger.debug("The copy of the registry is not up to date: %s", error)

        with self._delivery:
            if self._background is None:
                self._background = ThreadPoolExecutor(1, "registry-copy")
            self._background.submit(run)

    def _in_copy(self, write: Callable[[Registry], object]) -> None:
        try:
            write(self._copy)
        except RegistryError as error:
            logger.info("The copy of the registry cannot be written: %s", error)

    def _copy_snapshot(self, scope: str, snapshot: Snapshot, saves: int) -> None:
        if saves != self._saves:
            return  # the copy has what this process has saved since
        known = self._copy.load(scope)
        parts = snapshot.catalog.parts
        old = known.catalog.parts if known else {}
        new = [part for name, part in parts.items() if old.get(name) != part]
        self._copy.save_settings(scope, snapshot.settings)
        self._copy.save_parts(
            scope, new, revision=snapshot.catalog.revision, decided=snapshot.decided
        )

    def _copy_decisions(self) -> None:
        self._is_copying = False
        with self._copying:
            number = self._remote.newest_decision()
            if number == self._copied:
                return
            if number < self._copied:
                # An older backup took its place: nobody knows what was decided since.
                self._remote.report_loss(at=time.time())
            export = self._remote.export_decisions()
            self._copy.import_decisions(export)
            self._copied = export.number

    def _copy_requests(self, found: tuple[WrittenRequests, ...]) -> None:
        if set(self._copy.written_requests()) != set(found):
            self._copy.forget_requests()
            self._copy.save_requests(found)
