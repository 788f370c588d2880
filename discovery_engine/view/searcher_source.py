"""The searcher over a catalog, made when it is first needed.

A round of listings replaces the catalog once for each server. The index of all of them is joined
once, at the first search or when the round is over: joined for each server, it was a third of what
listing a thousand servers cost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from discovery_engine.search.examples.book import ExampleBook
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import Settings
    from discovery_engine.store.postgres.database_searcher import DatabaseSearcher
    from discovery_engine.store.postgres.search_documents import SearchDocuments

logger = logging.getLogger(__name__)

# Parts of it are opened lazily, so this may be noticed at any use.
_UNREADABLE = "The stored search index cannot be read and is built again"


class SearcherSource:
    """Called, it gives the searcher; the first call may take seconds. Threads may share it.

    Args:
        catalog: What to search.
        settings: Say how.
        book: Knows typical requests of tools; what the settings say if None.
        stored: The stored index, if there may be one of this catalog.
        previous: The source over the catalog before: what did not change is not indexed again.
        documents: Has the documents of tools in a database; None to search in memory.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        *,
        book: ExampleBook | None = None,
        stored: bytes | None = None,
        previous: SearcherSource | None = None,
        documents: SearchDocuments | None = None,
    ) -> None:
        self._catalog, self._settings = catalog, settings.search
        self._descriptions = settings.descriptions
        self._book = book or ExampleBook.of(settings.search)
        self._stored, self._documents = stored, documents
        self.is_in_database = documents is not None
        # Not the whole chain of sources, with all their catalogs.
        is_same = previous and previous.is_in_database == self.is_in_database
        self._base = previous.base if previous and is_same else None
        self._searcher: Searcher | None = None
        self._lock = threading.Lock()
        self.is_stored = stored is not None
        """True if the registry has its index, as far as that is known."""

    def __call__(self) -> Searcher:
        with self._lock:
            if self._searcher is None:
                self._searcher = self._opened()
                self._stored = self._base = None
            return self._searcher

    @property
    def is_ready(self) -> bool:
        return self._searcher is not None

    @property
    def base(self) -> Callable[[], Searcher] | None:
        """The source of the searcher from which the next catalog's searcher is made."""
        return self if self.is_ready or self._stored else self._base

    def rebuild(self) -> Searcher:
        """The searcher, made from nothing but the catalog.

        Raises:
            RegistryError: If the database that is searched does not answer.
        """
        if self._documents is None:
            searcher = self._build()
        else:
            self._documents.rewrite()
            database = self._open_database(self._documents)
            database.database_index.stored(is_whole=True)
            searcher = database
        with self._lock:
            self._searcher, self.is_stored = searcher, False
        return searcher

    def _opened(self) -> Searcher:
        if self._documents:
            return self._open_database(self._documents, self._base and self._base())
        if self._stored and (searcher := self._loaded(self._stored)):
            return searcher
        self.is_stored = False
        try:
            return self._build(self._base and self._base())
        except Exception:
            logger.warning(_UNREADABLE, exc_info=True)
            return self._build()

    def _build(self, previous: Searcher | None = None) -> Searcher:
        return build_searcher(
            self._catalog,
            self._settings,
            descriptions=self._descriptions,
            book=self._book,
            previous=previous,
        )

    def _loaded(self, stored: bytes) -> Searcher | None:
        return load_searcher(
            stored,
            self._catalog,
            self._settings,
            descriptions=self._descriptions,
            book=self._book,
        )

    def _open_database(
        self, documents: SearchDocuments, previous: Searcher | None = None
    ) -> DatabaseSearcher:
        # Only then: memory is where most configurations search.
        from discovery_engine.store.postgres.database_searcher import (
            open_database_searcher,
        )

        return open_database_searcher(
            self._catalog,
            self._settings,
            descriptions=self._descriptions,
            book=self._book,
            documents=documents,
            open_local=self._build,
            previous=previous,
        )
