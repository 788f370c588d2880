"""The searcher over a catalog, made when it is first needed.

A round of listings replaces the catalog once for each server. The index of all of them is joined
once, at the first search or when the round is over: joined for each server, it was a third of what
listing a thousand servers cost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.search.examples.book import ExampleBook
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import SearchSettings, Settings
    from discovery_engine.store.postgres.database_searcher import DatabaseSearcher
    from discovery_engine.store.postgres.search_documents import SearchDocuments
    from discovery_engine.tools.model import ServerName

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
        described = {server.name: server.description for server in settings.servers}
        book = book or ExampleBook.of(settings.search)
        self._load = (
            partial(
                load_searcher, stored, catalog, settings.search, descriptions=described, book=book
            )
            if stored
            else None
        )
        self._build = partial(
            build_searcher, catalog, settings.search, descriptions=described, book=book
        )
        self._documents = documents
        self.is_in_database = documents is not None
        self._open_database = (
            partial(
                _database_searcher,
                catalog,
                settings.search,
                described,
                book,
                documents,
                self._build,
            )
            if documents
            else None
        )
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
                self._load = self._base = None
            return self._searcher

    @property
    def is_ready(self) -> bool:
        return self._searcher is not None

    @property
    def base(self) -> Callable[[], Searcher] | None:
        """The source of the searcher from which the next catalog's searcher is made."""
        return self if self.is_ready or self._load else self._base

    def rebuild(self) -> Searcher:
        """The searcher, made from nothing but the catalog.

        Raises:
            RegistryError: If the database that is searched does not answer.
        """
        searcher = self._rewritten() or self._build()
        with self._lock:
            self._searcher, self.is_stored = searcher, False
        return searcher

    def _rewritten(self) -> Searcher | None:
        if self._documents is None or self._open_database is None:
            return None
        self._documents.rewrite()
        searcher = self._open_database()
        searcher.database_index.stored()
        return searcher

    def _opened(self) -> Searcher:
        if self._open_database:
            return self._open_database(self._base() if self._base else None)
        if self._load and (searcher := self._load()):
            return searcher
        self.is_stored = False
        try:
            return self._build(previous=self._base() if self._base else None)
        except Exception:
            logger.warning(_UNREADABLE, exc_info=True)
            return self._build()


def _database_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    descriptions: Mapping[ServerName, str],
    book: ExampleBook,
    documents: SearchDocuments,
    open_local: Callable[[], Searcher],
    previous: Searcher | None = None,
) -> DatabaseSearcher:
    # Only then: memory is where most configurations search.
    from discovery_engine.store.postgres.database_searcher import open_database_searcher

    return open_database_searcher(
        catalog,
        settings,
        descriptions=descriptions,
        book=book,
        documents=documents,
        open_local=open_local,
        previous=previous,
    )
