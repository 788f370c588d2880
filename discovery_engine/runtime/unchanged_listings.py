"""Ends the claims of servers whose listings change nothing: all that are ready in one write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from discovery_engine._util.group_commit import GroupCommit
from discovery_engine.registry.refresh_queue import ClaimedPart

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.runtime.catalog_store import CatalogStore
    from discovery_engine.runtime.ingestion.listing_result import ListingResult


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
