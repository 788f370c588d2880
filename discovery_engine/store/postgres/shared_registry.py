"""A registry that gateways share, with a copy on this machine for outages of the database.

    database    the state that all gateways share
    copy        an SQLite file with the last state that this machine read, and the search index
    local       the registry of the data folder: the eras of this machine, and the settings,
                from which a start learns that there is a database

During an outage reads are answered by the copy, and decisions are refused, as they could be lost.
Writes of settings, listings, vectors and counts of uses wait in a bounded buffer. Everything else,
such as the queue and the webhooks, depends on the present state of the database, and so is not
available without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from discovery_engine.config.files.location import own_catalog_key_of
from discovery_engine.errors import RegistryError, RegistryTimeoutError, RegistryUnavailableError
from discovery_engine.store.availability import Availability, RegistryHealth
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.records import LossRecord
from discovery_engine.store.write_buffer import WriteBuffer
from discovery_engine.trust.decisions import UNREAD

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.examples.book import WrittenRequests
    from discovery_engine.store.postgres.timed_connection import TimedConnection
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry
    from discovery_engine.store.statements import Connection
    from discovery_engine.tools.model import ServerName, ToolKey

logger = logging.getLogger(__name__)

_COPY_PAUSE = 1.0  # seconds before decisions of others are copied, many of them at once


class LocalCopy:
    """The copy of a database on this machine; it closes neither of the two.

    A background thread updates it in the order of the calls. A failed write to the copy is only
    logged, since the database has the same data.

    Args:
        remote: The registry in the database.
        store: The registry in the file of the copy.
    """

    def __init__(self, remote: PostgresRegistry, store: SqliteRegistry) -> None:
        self._remote = remote
        self.store = store
        self._newest = store.newest_decision()
        """The number of the newest decision that the copy has."""
        self._seen = self._newest
        """The number of the newest decision in the database, as this process last read it."""
        self._fetched: dict[str, dict[bytes, bytes]] = {}
        """Vectors from the database, by model and digest, that no scope has declared as used."""
        self._saves = 0
        """The number of times this process has saved settings or parts of a catalog."""
        self._copying = threading.Lock()
        self._is_copying = False
        """True if copying the decisions is queued."""
        self._turn = threading.Lock()
        self._background: ThreadPoolExecutor | None = None
        self._is_finishing = threading.Event()

    def write(self, write: Callable[[Registry], object]) -> None:
        try:
            write(self.store)
        except RegistryError as error:
            logger.info("The copy of the registry cannot be written: %s", error)

    @property
    def saves(self) -> int:
        """A number that grows whenever this process saves settings or parts of a catalog."""
        return self._saves

    def skip_older_snapshots(self) -> None:
        """Discard snapshots that were read earlier, so that they do not replace newer data."""
        self._saves += 1

    def copy_snapshot(self, scope: str, snapshot: Snapshot, saves: int) -> None:
        """Copy a snapshot in the background.

        `saves` is the value of the property before the snapshot was read from the database. If
        this process has saved anything since, nothing is copied.
        """

        def copy() -> None:
            if saves == self._saves:  # else the copy already has newer data of this process
                self._save_snapshot(scope, snapshot)

        self._later(copy)

    def copy_requests(self, requests: tuple[WrittenRequests, ...]) -> None:
        """Replace the written requests of the copy in the background."""

        def copy() -> None:
            if set(self.store.written_requests()) != set(requests):
                self.store.forget_requests()
                self.store.save_requests(requests)

        self._later(copy)

    def note_vectors(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Remember vectors that were read from the database; see `save_noted_vectors`."""
        self._fetched.setdefault(model, {}).update(vectors)

    def save_noted_vectors(self, scope: str, model: str, used: frozenset[bytes]) -> None:
        """Save those of the remembered vectors of a model that a scope uses; drop the others."""
        fetched = self._fetched.pop(model, {})
        vectors = {digest: data for digest, data in fetched.items() if digest in used}
        self.write(lambda store: store.save_vectors(scope, model, vectors))

    @property
    def missed_decision(self) -> int | None:
        """The number of the newest decision in effect here; None if the copy has it."""
        return self._seen if self._newest < self._seen else None

    def require_decisions(self) -> None:
        """Check that the copy has all decisions that are in effect, before they are read from it.

        Raises:
            RegistryUnavailableError: If some are missing, which the copy would undo.
        """
        if self.missed_decision is not None:
            raise RegistryUnavailableError(
                "the newest decisions cannot be read again while the database does not answer",
                hint="they stay in effect; try again once it does",
            )

    def copy_decisions_later(self, newest: int | None = None) -> None:
        """Copy the decisions in the background, unless that is queued or nothing is new.

        `newest` is the number of the newest decision in the database; None if it is not known.
        """
        if newest is not None:
            self._seen = newest
        if not self._is_copying and newest != self._newest:
            self._is_copying = True  # the queued run copies all decisions made before it starts
            self._later(self._copy_soon)

    def _copy_soon(self) -> None:
        # When workers accept many new tools, there is a decision every few milliseconds.
        self._is_finishing.wait(_COPY_PAUSE)
        self.copy_decisions()

    def copy_decisions(self) -> None:
        """Copy new decisions from the database; all of them if those would not suffice.

        Raises:
            RegistryError: If the database does not answer, or the copy cannot be written.
        """
        self._is_copying = False
        with self._copying:
            number = self._remote.newest_decision()
            self._newest = self.store.newest_decision()  # other processes here share the copy
            if number == self._newest:
                return
            if number < self._newest:
                # The database was restored from a backup, which lacks the newest decisions.
                self._remote.report_loss(at=time.time())
            # Copying 100,000 acceptances takes 10 s, copying only the new ones 0.3 s.
            export = self._remote.export_decisions(after=self._newest)
            # A new loss means that a scope was moved or that decisions are gone: copy everything.
            is_lost = any(
                isinstance(r, LossRecord) and r.number > self._newest for r in export.records
            )
            if number < self._newest or is_lost or not self.store.import_decisions(export):
                export = self._remote.export_decisions()
                self.store.import_decisions(export)
            self._newest = self._seen = export.number

    def finish(self) -> None:
        """Wait for the queued work, and end the background thread."""
        self._is_finishing.set()
        with self._turn:
            background, self._background = self._background, None
        if background:
            background.shutdown()

    def _later(self, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except RegistryError as error:
                logger.debug("The copy of the registry is not up to date: %s", error)

        with self._turn:
            if self._background is None:
                self._background = ThreadPoolExecutor(1, "registry-copy")
            self._background.submit(run)

    def _save_snapshot(self, scope: str, snapshot: Snapshot) -> None:
        last_snapshot = self.store.load(scope)
        parts = snapshot.catalog.parts
        old = last_snapshot.catalog.parts if last_snapshot else {}
        new = [part for name, part in parts.items() if old.get(name) != part]
        self.store.save_settings(scope, snapshot.settings)
        self.store.save_parts(
            scope, new, revision=snapshot.catalog.revision, decided=snapshot.decided
        )


C = TypeVar("C", bound=type)
N = TypeVar("N", int, int | None)
T = TypeVar("T")

# The part of an operation's time limit for which a caller waits for its bookkeeping.
_BOOKKEEPING_TIME_SHARE = 0.1
_READ_AGAIN = 1.0  # seconds after which a change that could not be read is announced again
_MET = "met"  # the file beside the copy that shows that the database has answered once


def _copied(*names: str, are_decisions: bool = False) -> Callable[[C], C]:
    """Return a class decorator that adds methods which read the copy during an outage."""

    def decorate(cls: C) -> C:
        for name in names:
            setattr(cls, name, _copied_method(name, are_decisions=are_decisions))
        return cls

    return decorate


def _copied_method(name: str, *, are_decisions: bool) -> Callable[..., Any]:
    def read(self: SharedRegistry, *args: Any) -> Any:
        return self._found(name, *args, is_decision=are_decisions)[0]

    read.__name__ = name
    return read


@_copied("load_settings", "vector_count", "uses", "requests_mark", "history")
@_copied("decisions", "approvals", "accepted", "servers_mark", "accepted_since", are_decisions=True)
@_copied("registered_servers", "switches", "shared_rules", "has_decisions", are_decisions=True)
class SharedRegistry(PostgresRegistry):
    """A registry in PostgreSQL with a local copy; `backends.open_shared` opens it.

    It closes the three registries that it is given.

    Args:
        remote: The registry in the database.
        copy: The registry in the file of the copy.
        local: The registry of the data folder.
        folder: The folder of the copy.
        clock: Returns seconds from any starting point.
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
        super().__init__(remote.database)
        self._remote = remote
        self._copy = LocalCopy(remote, copy)
        self._local = local
        self._met = folder / _MET
        self._has_met = self._met.exists()
        """True if the database has ever answered on this machine."""
        self._answers_of_copy = 0
        """The number of times the copy has answered in place of the database."""
        self.availability = Availability(self.database.address.name, clock)
        self._waiting = WriteBuffer(
            self.availability, patience=self.database.timeout * _BOOKKEEPING_TIME_SHARE
        )
        self._turn = threading.Lock()
        self._unsaved: dict[tuple[str, ServerName], ServerPart] = {}
        """The newest unsaved part of each server; older ones are not written any more."""

    @property
    def local(self) -> Registry:
        return self._local

    @property
    def health(self) -> RegistryHealth:
        error, since = self.availability.error, self.availability.since
        waiting = self._waiting
        return RegistryHealth(error, since, len(waiting), waiting.dropped, waiting.set_aside)

    # Access to the database, unless it has just failed.

    def read(self, work: Callable[[TimedConnection], T]) -> T:
        return self._asked_if_available(lambda: super(SharedRegistry, self).read(work))

    def write(self, work: Callable[[TimedConnection], T]) -> T:
        return self._asked_if_available(lambda: super(SharedRegistry, self).write(work))

    def run_alone(self, work: Callable[[TimedConnection], T]) -> T:
        return self._asked_if_available(lambda: super(SharedRegistry, self).run_alone(work))

    def _asked_if_available(self, ask: Callable[[], T]) -> T:
        if not self._may_ask() and (error := self.availability.error):
            raise error
        return self._asked(ask)

    def _may_ask(self) -> bool:
        """Return whether to use the database now; during an outage it is pinged first."""
        if not self.availability.may_try():
            return False
        try:
            if self.availability.error is not None:
                self.ping()
        except RegistryError as error:
            self.availability.failed(error)
            return False
        return True

    def _asked(self, ask: Callable[[], T]) -> T:
        """Use the database, and record whether it is available.

        Raises:
            RegistryError: If the database does not answer, or refuses the operation.
        """
        try:
            answer = ask()
        except RegistryError as error:
            if outage := self._outage(error):
                self.availability.failed(outage)
            raise
        was_out = self.availability.answered()
        if not self._has_met:
            self._has_met = True
            with suppress(OSError):
                self._met.touch()
        if was_out:
            self._copy.copy_decisions_later()
            self._waiting.resume()
        return answer

    def _outage(self, error: RegistryError) -> RegistryError | None:
        """Return the error of an outage; None if the database answers and one operation failed."""
        is_gone = isinstance(error, RegistryUnavailableError)
        if is_gone and not isinstance(error, RegistryTimeoutError):
            return error
        try:
            self.ping()
        except RegistryError as outage:
            return outage
        return None

    async def changes(self) -> AsyncGenerator[None]:
        """Yield on each change of the database, and again while the copy answers in its place."""
        async with aclosing(super().changes()) as changes:
            async for _ in changes:
                self.availability.retry_now()
                count = self._answers_of_copy
                yield
                # The copy's answers predate the change, which the database announces only once.
                while count != self._answers_of_copy:
                    await anyio.sleep(_READ_AGAIN)
                    if self.availability.is_due:
                        count = self._answers_of_copy
                        yield

    # State that all gateways share; read from the copy during an outage.

    def _found(self, name: str, *args: Any, is_decision: bool = False) -> tuple[Any, bool]:
        """Call a method of the database, or of the copy if the database does not answer.

        Returns:
            The result of the method, and whether it is that of the database.

        Raises:
            RegistryError: If the copy cannot be read, or lacks decisions that are in effect here.
        """
        try:
            return getattr(PostgresRegistry, name)(self, *args), True
        except RegistryError as error:
            # Decisions take milliseconds to read: if that fails, so would everything else.
            if is_decision and self.availability.error is None:
                self.availability.failed(error)
        self._answers_of_copy += 1
        answer = getattr(self._copy.store, name)(*args)
        if is_decision:
            self._copy.require_decisions()
        return answer, False

    def load(self, scope: str) -> Snapshot | None:
        saves = self._copy.saves
        snapshot, is_live = self._found("load", scope)
        if snapshot and is_live:
            self._copy.copy_snapshot(scope, snapshot, saves)
        return snapshot  # type: ignore[no-any-return] # as `PostgresRegistry.load`

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        try:
            parts = super().changed_parts(scope)
        except RegistryError:
            self._answers_of_copy += 1
            return ()
        if parts:
            self._copy.write(lambda copy: copy.save_parts(scope, parts, revision=0))
            # Earlier listings of this gateway that are not written yet are older.
            self._drop_unsaved(scope, [part.server for part in parts])
        return parts

    def newest_decision(self) -> int:
        try:
            number = super().newest_decision()
        except RegistryError as error:
            if self.availability.error is None:
                self.availability.failed(error)
            self._answers_of_copy += 1
            missed = self._copy.missed_decision
            return self._copy.store.newest_decision() if missed is None else missed
        self._copy.copy_decisions_later(number)
        return number

    def lost_at(self, scope: str) -> float | None:
        lost: float | None
        lost, is_live = self._found("lost_at", scope, is_decision=True)
        # Until the database has answered once, it is unknown which tools its owner withholds.
        return UNREAD if not (is_live or self._has_met) else lost

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        vectors: Mapping[bytes, bytes]
        vectors, is_live = self._found("vectors", model, digests)
        if is_live:
            self._copy.note_vectors(model, vectors)
        return vectors

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        requests: tuple[WrittenRequests, ...]
        requests, is_live = self._found("written_requests")
        if is_live:
            self._copy.copy_requests(requests)
        return requests

    # Bookkeeping, which may wait in the buffer.

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        self._copy.skip_older_snapshots()
        self._local.save_settings(own_catalog_key_of(settings), settings)
        self._copy.write(lambda copy: copy.save_settings(scope, settings, keep_others=keep_others))
        save = super().save_settings
        self._waiting.add(
            "catalog", ("settings", scope), lambda: save(scope, settings, keep_others=keep_others)
        )

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        new = {(scope, part.server): part for part in parts}
        added, save_parts = time.monotonic(), super().save_parts

        def save() -> None:
            with self._turn:
                newest = [part for key, part in new.items() if self._unsaved.get(key) is part]
            # Meanwhile another gateway may have listed the servers.
            is_late = len(newest) < len(new) or time.monotonic() > added + self._waiting.patience
            save_parts(
                scope,
                newest,
                revision=revision,
                decided=None if is_late else decided,
                keep_newer=keep_newer or is_late,
            )
            self._drop_unsaved(scope, [part.server for part in newest], only=newest)

        self._copy.skip_older_snapshots()
        self._copy.write(
            lambda copy: copy.save_parts(
                scope, new.values(), revision=revision, decided=decided, keep_newer=keep_newer
            )
        )
        with self._turn:
            self._unsaved |= new
        self._waiting.add("catalog", next(iter(new)) if len(new) == 1 else object(), save)

    def _drop_unsaved(
        self,
        scope: str,
        servers: Collection[ServerName] | None,
        *,
        only: Collection[ServerPart] | None = None,
    ) -> None:
        """Discard the unsaved parts of these servers, of all if None; with `only`, just those."""
        dropped = None if only is None else {id(part) for part in only}
        with self._turn:
            for key, part in [*self._unsaved.items()]:
                is_named = key[0] == scope and (servers is None or key[1] in servers)
                if is_named and (dropped is None or id(part) in dropped):
                    del self._unsaved[key]

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        new, save = dict(vectors), super().save_vectors
        self._copy.write(lambda copy: copy.save_vectors(scope, model, new))
        key = "save", scope, model, frozenset(new)
        self._waiting.add("vectors", key, lambda: save(scope, model, new))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        used, keep = frozenset(digests), super().keep_vectors
        self._copy.save_noted_vectors(scope, model, used)
        self._copy.write(lambda copy: copy.keep_vectors(scope, model, used))
        key = "keep", scope, model, used
        self._waiting.add("vectors", key, lambda: keep(scope, model, used))
        return 0

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        count = super().count_use
        self._copy.write(lambda copy: copy.count_use(scope, key, at=at))
        # Each use has a key of its own, so that none replaces another in the buffer.
        self._waiting.add("uses", object(), lambda: count(scope, key, at=at))

    # Decisions, and other writes that succeed only in the database.

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else tuple(servers)
        self._copy.skip_older_snapshots()
        count = super().forget(scope, names)
        self._drop_unsaved(scope, names)
        self._copy.write(lambda copy: copy.forget(scope, names))
        return count

    def _decide(
        self,
        scope: str,
        work: Callable[[Connection, int], N],
        *,
        is_first_sight: bool = False,
    ) -> N:
        try:
            result = super()._decide(scope, work)
        except RegistryUnavailableError as error:
            message = f"the decision cannot be kept: {error.message}"
            raise type(error)(message, hint=error.hint) from error
        if is_first_sight:
            self._copy.copy_decisions_later()
        else:
            # At once, so that it stays in force here during an outage.
            with suppress(RegistryError):
                self._copy.copy_decisions()
        return result

    def _write_decisions(
        self,
        work: Callable[[TimedConnection], tuple[T, int | None]],
        scopes: Iterable[str],  # noqa: ARG002 - there is no mark beside a database
    ) -> T:
        # A decision tries the database at once, even right after a failure.
        return self._asked(lambda: self.database.write(work)[0])

    # The search index stays on this machine.

    def load_index(self, scope: str) -> bytes | None:
        return self._copy.store.load_index(scope)

    def save_index(self, scope: str, data: bytes) -> None:
        self._copy.store.save_index(scope, data)

    def close(self) -> None:
        self._waiting.close(self.database.timeout)
        self._copy.finish()
        for store in (self._remote, self._copy.store, self._local):
            store.close()
