"""Sources of the marketplace: each is copied page by page, or asked for each query.

A source raises `SourceFailure` and nothing else. It costs only itself: what was copied before is
served, and the failure is in the answer as a diagnostic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from discovery_engine._util import digests
from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry

FailureCode: TypeAlias = Literal[
    "MARKETPLACE_SOURCE_UNAVAILABLE",  # down, slow, limited: it may pass
    "MARKETPLACE_SOURCE_INVALID",  # it answers with what is no marketplace
    "MARKETPLACE_LIST_INVALID",  # the owner's own list cannot be read
]


class SourceFailure(Exception):  # noqa: N818 - a signal within this package
    """Why a source gave nothing."""

    def __init__(
        self,
        code: FailureCode,
        reason: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        is_passing: bool = False,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.hint = hint
        self.retry_after = retry_after
        """Seconds until the source may be asked again, if it says so."""
        self.is_passing = is_passing
        """True if another try at once is worthwhile."""
        self.origin = origin or Origin("")

    def diagnostic(self, source: str) -> Diagnostic:
        return Diagnostic(self.code, self.reason, self.hint, source, self.origin)


class SyncPoint(Struct, frozen=True):
    """How far a source was copied; what it means is the source's alone."""

    cursor: str = ""
    """Where to go on; empty at the beginning."""
    since: str = ""
    """The moment from which changes are wanted; empty for everything."""
    etag: str = ""
    """The ETag of the first page, when it was read last."""


class SourcePage(Struct, frozen=True):
    """One page of a source, as it was returned at one point."""

    entries: tuple[MarketplaceEntry, ...] = ()
    """The entries of the page; those with the status `deleted` are removed from the copy."""
    malformed: tuple[str, ...] = ()
    """Why each entry that could not be read was left out."""
    mistakes: tuple[Diagnostic, ...] = ()
    """The same of a list of the owner, who can correct them."""
    cursor: str = ""
    """The cursor of the next page; empty if this is the last one."""
    etag: str = ""
    is_unchanged: bool = False
    """Nothing has changed since the source was read last."""
    size: int = 0
    """Bytes that were read."""


PageReader: TypeAlias = Callable[[SyncPoint], Awaitable[SourcePage]]
"""Returns the page at a point; raises SourceFailure if there is none."""


def copy_key(settings: MarketplaceSource) -> str:
    """The key of the copy of a source: from another address, or trusted otherwise, it is another.

    Configurations that share a data folder may call different sources alike.
    """
    made_of = (settings.type, settings.address or settings.path, settings.trusted_as)
    return f"{settings.name} {digests.digest(repr(made_of).encode()).hex()[:16]}"


class SyncedSource(ABC):
    """A source of which there is a copy, searched without asking the source."""

    has_changes = False
    """True if it can be asked for the changes since a moment."""

    def __init__(self, settings: MarketplaceSource) -> None:
        self.settings = settings
        self.origin = EntryOrigin(settings.name, settings.trusted_as)
        self.is_local = bool(settings.path)
        """True if looking for changes costs next to nothing, so that each search does it."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[PageReader]:
        """Connect to it.

        Raises:
            SourceFailure: If that fails.
        """


class LiveSource(Protocol):
    """A source that is asked for each query, and never for more than it is asked for."""

    @property
    def settings(self) -> MarketplaceSource: ...

    async def search(self, query: str, *, limit: int) -> Sequence[MarketplaceEntry]:
        """Return the entries that fit a query, the best first.

        Raises:
            SourceFailure: If the source cannot be asked.
        """

    async def lookup(self, name: str, version: str = "") -> MarketplaceEntry | None:
        """The entry of that exact name; None if there is none, or the name cannot be one.

        Raises:
            SourceFailure: If the source cannot be asked.
        """
