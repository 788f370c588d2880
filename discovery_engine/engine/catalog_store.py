"""The catalog in the registry: what a run stores for the next one.

A failed write is logged. It only means that the next start has to list the servers again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.errors import RegistryError
from discovery_engine.search.examples.book import WrittenBook
from discovery_engine.store.refresh_job import ClaimedPart, ClaimLostError

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.ingestion.server_parts import ListingResult
    from discovery_engine.search.usage import UseCount
    from discovery_engine.store.postgres.search_documents import SearchDocuments
    from discovery_engine.store.refresh_job import RefreshClaim, SaveOutcome
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.decisions import Acceptance

logger = logging.getLogger(__name__)

_GRACE = 600.0  # seconds after which a gateway lists by itself what workers should have listed


class CatalogStore:
    """Calls the registry in threads. Snapshots and settings that it takes are the present ones.

    With `claimed_only` it is a worker's, which writes no listing without a claim.
    """

    def __init__(self, registry: Registry, *, claimed_only: bool = False) -> None:
        self._registry = registry
        self._claimed_only = claimed_only
        self._searched: tuple[str, SearchDocuments] | None = None

    def search_documents(self, settings: Settings) -> SearchDocuments | None:
        """The documents of tools in the database; None if the settings search in memory."""
        store = self._registry.search
        if store is None or not settings.search.is_in_database:
            return None
        # Only then: memory is where most configurations search.
        from discovery_engine.store.postgres.search_documents import SearchDocuments

        key = catalog_key_of(settings)
        if self._searched is None or self._searched[0] != key:
            self._searched = key, SearchDocuments(store, key)
        return self._searched[1]

    @property
    def is_of_this_machine(self) -> bool:
        """True if all users of the registry start and reach servers from this machine."""
        return self._registry.gateways is None

    async def load(self, settings: Settings) -> tuple[Snapshot | None, bytes | None]:
        """The last snapshot under settings like these, and its search index.

        Raises:
            RegistryError: If they cannot be read.
        """
        key = catalog_key_of(settings)
        snapshot = await anyio.to_thread.run_sync(self._registry.load, key)
        if self.search_documents(settings):
            return snapshot, None
        return snapshot, await anyio.to_thread.run_sync(self._registry.load_index, key)

    async def changed_parts(self, settings: Settings) -> tuple[ServerPart, ...]:
        """Return what other processes found of servers since; empty if it cannot be read."""
        key = catalog_key_of(settings)
        try:
            return await anyio.to_thread.run_sync(self._registry.changed_parts, key)
        except RegistryError as error:
            logger.warning("What other gateways listed cannot be loaded: %s", error)
            return ()

    async def tended_servers(self, settings: Settings) -> frozenset[ServerName]:
        """The servers that workers list in time; none if that cannot be read."""
        tended = partial(self._registry.tended_servers, catalog_key_of(settings), grace=_GRACE)
        try:
            return await anyio.to_thread.run_sync(tended)
        except RegistryError as error:
            logger.debug("Which servers workers list cannot be read: %s", error)
            return frozenset()

    async def name_servers(self, settings: Settings) -> bool:
        """Keep the jobs of these servers, and drop old ones; returns whether it succeeded."""
        key, names = catalog_key_of(settings), settings.by_name
        try:
            await anyio.to_thread.run_sync(self._registry.name_servers, key, names)
        except RegistryError as error:
            logger.debug("The refresh queue cannot be compared with the configuration: %s", error)
            return False
        return True

    async def save_settings(self, now: Snapshot, parts: Iterable[ServerPart] | None) -> None:
        """Store the settings, and these parts; None if all parts are stored already."""
        await self._write(partial(self._save_settings, now, parts))

    async def save_parts(
        self, now: Snapshot, parts: Iterable[ServerPart], *, are_listed: bool
    ) -> None:
        """Store these parts; `are_listed` if they are new listings, which replace any other."""
        await self._write(partial(self._save_parts, now, parts, are_listed=are_listed))

    def save_claimed(
        self, now: Snapshot, part: ServerPart, claim: RefreshClaim, *, due_in: float
    ) -> SaveOutcome:
        """Store what a claimed server listed, and end the claim; it blocks.

        Raises:
            RegistryError: If it cannot be stored.
        """
        revision, decided = now.catalog.revision, now.decided
        return self._registry.save_claimed(
            claim, part, due_in=due_in, revision=revision, decided=decided
        )

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        """End the claims of what is stored already, all in one write; returns which; it blocks.

        None of them if that fails: `save_claimed` shows which one is the reason.
        """
        try:
            return self._registry.end_unchanged(listed) if listed else frozenset()
        except RegistryError as error:
            logger.debug("Listings are stored one by one: %s", error)
            return frozenset()

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, acceptances: Iterable[Acceptance], *, at: float
    ) -> int:
        """Keep what a claimed server lists for the first time; it blocks.

        Raises:
            ClaimLostError: If the claim is not valid any more.
            RegistryError: If it cannot be kept.
        """
        count = self._registry.accept_claimed(claim, scope, acceptances, at=at)
        if count is None:
            raise ClaimLostError
        return count

    async def forget(self, now: Snapshot, servers: Collection[ServerName] | None) -> None:
        """Delete what is stored of servers, of all with None.

        Raises:
            RegistryError: If it cannot be deleted.
        """
        await anyio.to_thread.run_sync(self._forget, now, servers)

    async def save_index(self, settings: Settings, index: bytes) -> bool:
        """Store a search index; returns whether it succeeded."""
        save = self._registry.save_index
        return await self._write(partial(save, catalog_key_of(settings), index))

    async def count_use(self, settings: Settings, tool: ToolKey, *, at: float) -> None:
        """Count a use of a tool; `at` is Unix time in seconds."""
        count = self._registry.count_use
        await self._write(partial(count, catalog_key_of(settings), tool, at=at))

    async def uses(self, settings: Settings) -> Mapping[ToolKey, UseCount]:
        """The counts of uses; none if they cannot be read, or `search.learn` is not set."""
        if not settings.search.learn:
            return {}
        try:
            return await anyio.to_thread.run_sync(self._registry.uses, catalog_key_of(settings))
        except RegistryError as error:
            logger.warning("The use counts cannot be loaded: %s", error)
            return {}

    async def written_book(self, book: WrittenBook | None) -> WrittenBook | None:
        """Return what was written for tools; `book` if nothing else was, or it cannot be read."""
        try:
            mark = await anyio.to_thread.run_sync(self._registry.requests_mark)
        except RegistryError as error:
            logger.warning("The requests that were written for tools cannot be read: %s", error)
            return book
        if book and book.mark == mark and not book.has_failed:
            return book
        return WrittenBook(mark, lambda: nullcontext(self._registry)) if mark else None

    async def _write(self, write: Callable[[], object]) -> bool:
        try:
            await anyio.to_thread.run_sync(write)
        except RegistryError as error:
            logger.warning("The catalog cannot be stored: %s", error)
            return False
        return True

    def _save_settings(self, now: Snapshot, parts: Iterable[ServerPart] | None) -> None:
        # What a worker does not know, because its configuration is older, others may.
        self._registry.save_settings(
            catalog_key_of(now.settings), now.settings, keep_others=self._claimed_only
        )
        if parts is not None:
            self._save_parts(now, parts, are_listed=False)

    def _save_parts(self, now: Snapshot, parts: Iterable[ServerPart], *, are_listed: bool) -> None:
        if self._claimed_only:
            return
        key, revision = catalog_key_of(now.settings), now.catalog.revision
        self._registry.save_parts(
            key, parts, revision=revision, decided=now.decided, keep_newer=not are_listed
        )

    def _forget(self, now: Snapshot, servers: Collection[ServerName] | None) -> None:
        self._registry.forget(catalog_key_of(now.settings), servers)
        self._save_parts(now, (), are_listed=False)


class _Claimed(Struct, frozen=True):
    result: ListingResult
    claim: RefreshClaim
    due_in: float


class UnchangedListings:
    """Unchanged listings of one catalog, which does not change while they have the `turn`.

    `unchanged_part` gives the part that a listing makes, if it certainly changes nothing; it is
    called in a thread.
    """

    def __init__(
        self,
        store: CatalogStore,
        turn: Callable[[], AbstractAsyncContextManager[None]],
        unchanged_part: Callable[[ListingResult], ServerPart | None],
    ) -> None:
        self._store = store
        self._unchanged_part = unchanged_part
        self._group = GroupCommit(turn, self._end)

    async def end(self, result: ListingResult, claim: RefreshClaim, *, due_in: float) -> bool:
        """End the claim, or return False and leave it as it is: something may be different."""
        return await self._group.add(_Claimed(result, claim, due_in))

    async def _end(self, listed: Sequence[_Claimed]) -> list[bool]:
        def end() -> frozenset[RefreshClaim]:
            parts = ((listing, self._unchanged_part(listing.result)) for listing in listed)
            claimed = [
                ClaimedPart(listing.claim, part, listing.due_in) for listing, part in parts if part
            ]
            return self._store.end_unchanged(claimed)

        ended = await anyio.to_thread.run_sync(end)
        return [listing.claim in ended for listing in listed]


T = TypeVar("T")
R = TypeVar("R")


class _Group(Generic[T, R]):
    def __init__(self) -> None:
        self.items: list[T] = []
        self.results: Sequence[R] = ()
        self.error: Exception | None = None
        self.written = anyio.Event()


class GroupCommit(Generic[T, R]):
    """A writer that groups items; a lone item is written at once, and none waits for others.

    Args:
        turn: Held during a write; whatever else takes it has groups gather meanwhile.
        write: Writes items; returns a result for each, in their order.
    """

    def __init__(
        self,
        turn: Callable[[], AbstractAsyncContextManager[None]],
        write: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
    ) -> None:
        self._turn = turn
        self._write = write
        self._gathering: _Group[T, R] | None = None

    async def add(self, item: T) -> R:
        """The result of an item, which is written even if its caller is cancelled.

        Raises:
            Exception: What `write` raised, for each item of the group.
        """
        group = self._gathering
        is_first = group is None
        if group is None:
            group = self._gathering = _Group()
        position = len(group.items)
        group.items.append(item)
        if is_first:
            with anyio.CancelScope(shield=True):  # others of the group wait for this task
                await self._commit(group)
        else:
            await group.written.wait()
        if group.error:
            raise group.error
        return group.results[position]

    async def _commit(self, group: _Group[T, R]) -> None:
        async with self._turn():
            self._gathering = None
            try:
                group.results = await self._write(group.items)
            except Exception as error:  # noqa: BLE001 - for those whose items these are
                group.error = error
            # All callers go on at the same time: workers then ask for their next claims together.
            group.written.set()
