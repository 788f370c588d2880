"""The copy of a registry on this machine: what was last seen of the database, and how it is kept.

It is brought up to date in one background thread, in the order of the calls, and a failure to write
it is logged only: the database has what was written.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError, RegistryUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.store.protocols import Registry
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.sqlite.registry import SqliteRegistry

logger = logging.getLogger(__name__)


class LocalCopy:
    """The copy of a database as this machine last saw it; closes neither of the two.

    Args:
        remote: The database.
        store: That of the copy.
    """

    def __init__(self, remote: PostgresRegistry, store: SqliteRegistry) -> None:
        self._remote = remote
        self.store = store
        self._newest = store.newest_decision()
        """The number of the newest decision that the copy has."""
        self._seen = self._newest
        """The number of the newest decision that this process has read of the database."""
        self._fetched: dict[str, dict[bytes, bytes]] = {}
        """Vectors by model that came from the database, until a scope says that it uses them."""
        self._saves = 0
        """How often this process has saved anything of a catalog."""
        self._copying = threading.Lock()
        self._is_copying = False
        """True if copying the decisions is queued."""
        self._turn = threading.Lock()
        self._background: ThreadPoolExecutor | None = None

    def write(self, write: Callable[[Registry], object]) -> None:
        try:
            write(self.store)
        except RegistryError as error:
            logger.info("The copy of the registry cannot be written: %s", error)

    @property
    def saves(self) -> int:
        """Changes whenever this process saves anything of a catalog."""
        return self._saves

    def skip_older_snapshots(self) -> None:
        """Keep snapshots that were read before now from replacing what is saved now."""
        self._saves += 1

    def copy_snapshot(self, scope: str, snapshot: Snapshot, saves: int) -> None:
        """In the background; `saves` is that before the snapshot was read of the database."""

        def copy() -> None:
            if saves == self._saves:  # else the copy has what this process has saved since
                self._save_snapshot(scope, snapshot)

        self._later(copy)

    def copy_requests(self, found: tuple[WrittenRequests, ...]) -> None:
        """In the background."""

        def copy() -> None:
            if set(self.store.written_requests()) != set(found):
                self.store.forget_requests()
                self.store.save_requests(found)

        self._later(copy)

    def note_vectors(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Vectors that the database had; the copy gets those that a scope uses."""
        self._fetched.setdefault(model, {}).update(vectors)

    def save_noted_vectors(self, scope: str, model: str, used: frozenset[bytes]) -> None:
        fetched = self._fetched.pop(model, {})
        vectors = {digest: data for digest, data in fetched.items() if digest in used}
        self.write(lambda store: store.save_vectors(scope, model, vectors))

    @property
    def missed_decision(self) -> int | None:
        """The number of the newest decision in effect here if the copy does not have it."""
        return self._seen if self._newest < self._seen else None

    def require_decisions(self) -> None:
        """To be called before decisions of the copy are used.

        Raises:
            RegistryUnavailableError: If some that are in effect here are missing: the copy would
                undo them.
        """
        if self.missed_decision is not None:
            raise RegistryUnavailableError(
                "the newest decisions cannot be read again while the database does not answer",
                hint="they stay in effect; try again once it does",
            )

    def copy_decisions_later(self, newest: int | None = None) -> None:
        """In the background, unless it is queued already, or the copy has the `newest` one."""
        if newest is not None:
            self._seen = newest
        if not self._is_copying and newest != self._newest:
            self._is_copying = True  # what is queued copies all decisions until then
            self._later(self.copy_decisions)

    def copy_decisions(self) -> None:
        """Copy the decisions of the database that were made since; all, where that is not enough.

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
                # An older backup took its place, and the decisions made since are lost.
                self._remote.report_loss(at=time.time())
            # To copy 100,000 acceptances takes 10 s, and those that are new 0.3.
            export = self._remote.export_decisions(after=self._newest)
            if number < self._newest or not self.store.import_decisions(export):
                export = self._remote.export_decisions()
                self.store.import_decisions(export)
            self._newest = self._seen = export.number

    def finish(self) -> None:
        """Wait for what is queued."""
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
