"""A source that is one document, read whole: a file of the owner, or the answer of an address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import EntryOrigin
from discovery_engine.marketplace.source import SourcePage, SyncPoint
from discovery_engine.marketplace.source_content import SourceContent, open_content
from discovery_engine.secrets.resolver import SecretResolver


class DocumentSource(ABC):
    """Implements `SyncedSource`; a subclass reads the document."""

    has_changes = False

    def __init__(
        self, settings: MarketplaceSource, secrets: SecretResolver, *, folder: str | None = None
    ) -> None:
        self.settings = settings
        self.origin = EntryOrigin(settings.name, settings.trusted_as)
        self._secrets = secrets
        self._folder = folder

    @property
    def is_local(self) -> bool:
        return bool(self.settings.path)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[DocumentReader]:
        limit = bounds.CATALOG_BYTES
        async with open_content(self.settings, self._secrets, self._folder, limit) as content:
            yield DocumentReader(content, self.page)

    @abstractmethod
    def page(self, content: bytes, etag: str) -> SourcePage:
        """All entries of a document; runs in a thread.

        Raises:
            SourceFailure: If it is no such document.
        """


class DocumentReader:
    """Reads a document as one page."""

    def __init__(self, content: SourceContent, page: Callable[[bytes, str], SourcePage]) -> None:
        self._content = content
        self._page = page

    async def read(self, point: SyncPoint) -> SourcePage:
        content, etag = await self._content.read(point.etag)
        if content is None:
            return SourcePage(etag=etag, is_unchanged=True)
        return await anyio.to_thread.run_sync(self._page, content, etag)
