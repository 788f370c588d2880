"""Keeps the documents of one configuration's tools in a database.

Which are missing there is found by digests, and only those are made, by whichever gateway needs
them first: two that do so at once write the same. What is replaced is found for another minute by
gateways that have not noticed yet.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from discovery_engine._util import digests
from discovery_engine.errors import RegistryError
from discovery_engine.search.database.search_store import (
    SearchStore,
    ServerDocuments,
    StoredDocument,
    StoredServer,
)
from discovery_engine.search.database.stored_catalog import StoredCatalog, StoredVocabulary
from discovery_engine.search.database.term_keys import TermKeys
from discovery_engine.search.index.documents import build_documents
from discovery_engine.search.index.index import Index, IndexedServer, profiles_of
from discovery_engine.search.operations.operation_words import operation_words_digest
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName

FORMAT = 1
"""Raise it when the documents of the same tools are others, or are stored otherwise."""

_BATCH = 1_000  # tools that are written at once, more if a server has more: about a second
_BEGINNING = 0  # before the first revision


class SearchSynchronization:
    """Of one scope. Threads may share it."""

    def __init__(self, store: SearchStore, scope: str) -> None:
        self._store = store
        self._scope = scope
        self._lock = threading.Lock()
        self._recipe = b""
        self._revision = _BEGINNING
        self._stored: dict[ServerName, StoredServer] = {}
        self._vocabulary: StoredVocabulary | None = None
        self._is_rewriting = False

    def rewrite(self) -> None:
        """Have all documents made and stored again, at the next look."""
        self._is_rewriting = True

    def stored_catalog(self, names: Index, lexicon: Lexicon) -> StoredCatalog:
        """The catalog with these names, all of which the database has afterwards.

        Raises:
            RegistryError: If the database does not answer, or nothing is saved of the scope.
        """
        with self._lock:
            if (recipe := _recipe(lexicon)) != self._recipe:
                self._recipe, self._revision = recipe, _BEGINNING
            vocabulary = self._fetched()
            if self._store_missing(names.servers, lexicon, vocabulary):
                vocabulary = self._fetched()
            self._is_rewriting = False
            numbers = {name: self._stored[name].number for name in names.servers}
            revision = self._revision
        return StoredCatalog(
            names,
            self._store,
            vocabulary,
            MappingProxyType(numbers),
            MappingProxyType({number: name for name, number in numbers.items()}),
            revision,
        )

    def _fetched(self) -> StoredVocabulary:
        """The vocabulary, after what changed in the database was taken over."""
        for since in (self._revision, _BEGINNING):
            found = self._store.stored_index(self._scope, self._recipe, since=since)
            if found is None:
                raise RegistryError("nothing is saved of this configuration yet")
            known = self._vocabulary
            if since == _BEGINNING or known is None:
                known = StoredVocabulary(found.number, TermKeys(found.number), {})
                self._stored = {}
            for name, server in found.servers.items():
                if server is None:
                    self._stored.pop(name, None)
                else:
                    self._stored[name] = server
            if since != _BEGINNING and not (
                known.number == found.number and len(self._stored) == found.size
            ):
                continue  # another index, or more was dropped than it still knows
            known.counts.update(found.counts)
            self._vocabulary, self._revision = known, found.revision
            return known
        raise AssertionError("the whole index was read")

    def _store_missing(
        self,
        servers: Mapping[ServerName, IndexedServer],
        lexicon: Lexicon,
        vocabulary: StoredVocabulary,
    ) -> bool:
        """Store the documents that the database lacks; returns whether there were any."""
        made_of = {name: _made_of(server) for name, server in servers.items()}
        stored = self._stored
        others = [
            name
            for name, digest in made_of.items()
            if self._is_rewriting or name not in stored or stored[name].made_of != digest
        ]
        unlisted = stored.keys() - servers.keys()
        confirmed: dict[ServerName, bytes] = {}
        for batch in _batches({name: servers[name] for name in others}):
            new = []
            for name, server in batch.items():
                examples = server.examples
                # The database skips what it has already, by the content.
                content = os.urandom(32) if self._is_rewriting else _content(server, examples)
                if name in stored and stored[name].content == content:
                    confirmed[name] = made_of[name]
                else:
                    documents = _documents(name, server, examples, lexicon, vocabulary.keys)
                    new.append(ServerDocuments(name, made_of[name], content, *documents))
            if any(server.book.has_failed for server in batch.values()):
                raise RegistryError("the typical requests of tools cannot be read")
            if new:
                self._store.save_documents(vocabulary.number, new, unlisted=unlisted)
        if confirmed:
            self._store.confirm(vocabulary.number, confirmed)
        return bool(others)


def _documents(
    name: ServerName,
    server: IndexedServer,
    examples: Mapping[str, Examples],
    lexicon: Lexicon,
    keys: TermKeys,
) -> tuple[list[StoredDocument], dict[tuple[int, str], int]]:
    """The documents of a server's tools, and how many of them hold each term."""
    documents = [*build_documents(server.tools, name, server.description, lexicon, examples)]
    profiles = profiles_of(server.tools, examples, lexicon)
    counts = Counter(term for document in documents for term in document)
    return (
        [keys.stored(one, document) for one, document in zip(profiles, documents, strict=True)],
        {(keys.key(term), term): count for term, count in counts.items()},
    )


def _batches(
    servers: Mapping[ServerName, IndexedServer],
) -> Iterator[dict[ServerName, IndexedServer]]:
    batch: dict[ServerName, IndexedServer] = {}
    size = 0
    for name, server in servers.items():
        batch[name] = server
        size += len(server.part.entries)
        if size >= _BATCH:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _recipe(lexicon: Lexicon) -> bytes:
    """A digest of all that documents depend on beside tools and servers."""
    made_with = (
        FORMAT,
        __version__,
        unicodedata.unidata_version,
        lexicon.digest,
        operation_words_digest(),
    )
    return digests.digest(repr(made_with).encode())


def _made_of(server: IndexedServer) -> bytes:
    return _digest(server, server.book.digest)


def _content(server: IndexedServer, examples: Mapping[str, Examples]) -> bytes:
    """As `_made_of`, but by the requests of its own tools: the others' may change."""
    found = sorted((name, one.texts, str(one.source)) for name, one in examples.items())
    return _digest(server, found)


def _digest(server: IndexedServer, examples: str | Sequence[object]) -> bytes:
    made_of = (server.description, server.part.digest, examples)
    return digests.digest(repr(made_of).encode("utf-8", "backslashreplace"))
