"""A catalog whose terms are in a database: names, places of documents, and a vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine.search.database.document_place import DocumentPlace
from discovery_engine.search.database.search_store import SearchStore, StoredDocument
from discovery_engine.search.database.term_keys import TermKeys
from discovery_engine.search.index.index import DocId, Index

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName


class IndexChangedError(Exception):
    """The index in the database was changed, or dropped, since it was compared with the catalog."""


class NearestTools(NamedTuple):
    doc_ids: list[DocId | None]
    """The best first; None in place of one that was replaced a short while ago."""
    are_all: bool
    """Whether no other tool holds one of the terms."""


class StoredVocabulary(Struct):
    """How many tools hold each term; it is shared by the searchers of a configuration."""

    number: int
    """Of the index in the database."""
    keys: TermKeys
    counts: dict[str, int]


class StoredCatalog(Struct, frozen=True, dict=True):
    names: Index
    """The places and names of all tools, without their terms."""
    store: SearchStore
    vocabulary: StoredVocabulary
    numbers: Mapping[ServerName, int]
    """The numbers of the documents that this catalog has."""
    servers: Mapping[int, ServerName]
    """The same the other way round."""
    revision: int
    """Of the index, when it was compared with the catalog."""
    may_differ: bool = False
    """Whether a search goes on although the index was changed since."""

    @property
    def size(self) -> int:
        return self.names.size

    def document_frequency(self, term: str) -> int:
        # Another gateway may have added tools that this one does not know yet.
        return min(self.vocabulary.counts.get(term, 0), self.size)

    def known_terms(self, terms: Collection[str]) -> set[str]:
        counts = self.vocabulary.counts
        return {term for term in terms if term in counts}

    def term_key(self, term: str) -> int:
        return self.vocabulary.keys.key(term)

    def place(self, doc_id: DocId) -> DocumentPlace:
        level, doc = doc_id
        server, start, _ = self.names.levels[level].postings.span_of(doc)
        return DocumentPlace(self.numbers[server], doc - start)

    def documents(
        self, places: Collection[DocumentPlace]
    ) -> Mapping[DocumentPlace, StoredDocument]:
        return self.store.documents(places)

    def nearest(
        self,
        terms: Mapping[str, float],
        most: int,
        *,
        postings: int,
        servers: Iterable[ServerName] | None = None,
    ) -> NearestTools:
        """The tools with about the highest sums of weighted impacts, the best first.

        `terms` are looked up in their order, until so many `postings` were read.

        Raises:
            RegistryError: If the database does not answer.
            IndexChangedError: If the index there is another by now, and that matters.
        """
        if not terms:
            return NearestTools([], are_all=True)
        numbers = None if servers is None else [self.numbers[server] for server in servers]
        weights = self.vocabulary.keys.weights(terms)
        found = self.store.nearest(
            self.vocabulary.number, weights, most, postings=postings, servers=numbers
        )
        if found is None or (found.revision != self.revision and not self.may_differ):
            raise IndexChangedError
        return NearestTools([self.doc_id(*place) for place in found.places], found.are_all)

    def doc_id(self, number: int, position: int) -> DocId | None:
        """The tool whose document is there; None if this catalog has another one."""
        server = self.servers.get(number)
        if server is None:
            return None
        level, span = self.names.locate(server)
        return DocId(level, span.start + position)
