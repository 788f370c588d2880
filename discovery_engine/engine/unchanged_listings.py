"""Ends the claims of servers whose listings change nothing: all that are ready in one write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from discovery_engine.store.refresh_job import ClaimedPart

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.engine.catalog_store import CatalogStore
    from discovery_engine.engine.ingestion.listing_result import ListingResult
    from discovery_engine.store.refresh_job import RefreshClaim


class _Claimed(NamedTuple):
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
