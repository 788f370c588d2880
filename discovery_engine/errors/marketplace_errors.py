"""Errors of requests to the marketplace: names that nothing, or more than one server, has."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine.errors.discovery_error import DiscoveryError
from discovery_engine.errors.refusals import NotFoundError


class MarketplaceEntryNotFoundError(NotFoundError):
    code = "MARKETPLACE_ENTRY_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace search` finds names"
        super().__init__(f"no source of the marketplace has {name!r}", nearest, hint=hint)


class MarketplaceEntryAmbiguousError(NotFoundError):
    code = "MARKETPLACE_ENTRY_AMBIGUOUS"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        """Each names one of them."""
        super().__init__(f"several servers are called {name!r}", candidates)


class MarketplaceSourceNotFoundError(NotFoundError):
    code = "MARKETPLACE_SOURCE_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace sources` names them all"
        super().__init__(f"the marketplace has no source {name!r}", nearest, hint=hint)


class MarketplaceCursorError(DiscoveryError):
    code = "MARKETPLACE_CURSOR_INVALID"

    def __init__(self) -> None:
        super().__init__(
            "the cursor is of no page of the marketplace",
            hint="take the one of the page before, or begin without one",
        )
