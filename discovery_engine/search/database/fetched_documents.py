"""The part of an index in a database that one query needs, fetched as it is needed.

Fetched documents have the places and names of all tools, and the terms of the few that were
fetched. What is counted over all tools is that of all. So the searcher over them scores, orders and
decides as one over the whole index, as long as all that would come first was fetched.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.search.database.search_store import StoredDocument
from discovery_engine.search.database.stored_catalog import NearestTools
from discovery_engine.search.database.term_keys import held_by
from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.index.levels import Level
from discovery_engine.search.index.names import IDS
from discovery_engine.search.index.postings import PostingList, Postings
from discovery_engine.search.query.retrieval import heaviest_terms

if TYPE_CHECKING:
    from discovery_engine.search.database.stored_catalog import StoredCatalog
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.tools.model import ServerName

_TINY = 4  # times as many tools as are worth scoring: they are fetched, whatever they hold
# Tools that are fetched beside those worth scoring, as the sums of a database are rough; and one
# more for each so many of all tools, as more of them have about the same sum. Of 400,000 tools
# 0.993 of the first ten were found with 60, 0.997 with 150, 0.9995 with 300.
_MORE = 60
_TOOLS_FOR_MORE = 4_000
_MOST = 20_000  # places that are ever fetched
# Each posting is a page of the database. Of 100,000 tools 98.5 % of the answers are those of
# memory; with half as many 97.5 %, with all 99 %.
_POSTINGS = 6_000  # that are read at first,
_MOST_POSTINGS = 100_000  # and where too few of the tools that they lead to are allowed
_NARROW = 0.25  # of all tools; among fewer, the database looks at no others


class FetchedIndex(Index, frozen=True, dict=True, kw_only=True):
    """An index of all tools that has the terms of some."""

    whole: StoredCatalog

    @property
    def size(self) -> int:
        return self.whole.size

    def document_frequency(self, term: str) -> int:
        return self.whole.document_frequency(term)

    def known_terms(self, terms: Collection[str]) -> set[str]:
        return self.whole.known_terms(terms)


_Nearest: TypeAlias = tuple[int, NearestTools]
"""How many were asked for, and what was found."""


class FetchedDocuments:
    """Of one query. Threads that share it may fetch something twice."""

    def __init__(self, whole: StoredCatalog, terms: QueryTerms) -> None:
        self._whole = whole
        self._terms = terms
        self._documents: list[dict[int, StoredDocument]] = [{} for _ in whole.names.levels]
        self._heaviest = heaviest_terms(FetchedIndex(whole=whole), terms)
        self._nearest: dict[tuple[int, frozenset[ServerName] | None], _Nearest] = {}
        """By the number of terms that were looked up, and the servers."""
        self._index: FetchedIndex | None = None

    @property
    def index(self) -> FetchedIndex:
        """The index of what was fetched until now."""
        if self._index is None:
            names = self._whole.names
            levels = [
                _level(level, documents, self._whole.term_key)
                for level, documents in zip(names.levels, self._documents, strict=True)
            ]
            self._index = FetchedIndex(tuple(levels), names.servers, whole=self._whole)
        return self._index

    def cover(self, least: int, allowed: Callable[[DocId], bool], within: Subset | None) -> None:
        """Fetch the allowed tools that are likely to fit best, at least so many; see `Retrieval`.

        Raises:
            RegistryError: If the database does not answer.
            IndexChangedError: As `StoredCatalog.nearest`.
        """
        if within is not None and within.size <= _TINY * least:
            self.hold(filter(allowed, within))
            return
        wanted = least + _MORE + self._whole.size // _TOOLS_FOR_MORE
        servers = None
        if within is not None and within.size < _NARROW * self._whole.size:
            servers = frozenset(within.servers(self._whole.names))
        # The rarest terms first; then more of what holds them, and at last what holds any term.
        chosen = self._chosen(self._heaviest, 2 * wanted, wanted, allowed, servers)
        if len(chosen) < wanted:
            chosen = self._chosen(self._heaviest, _MOST, wanted, allowed, servers)
        is_enough = wanted if servers else least // 2
        if len(chosen) < is_enough and len(self._heaviest) < len(self._terms.weights):
            if within is not None:
                servers = servers or frozenset(within.servers(self._whole.names))
            chosen = self._chosen(self._terms.weights, _MOST, wanted, allowed, servers)
        self.hold(chosen)

    def hold(self, doc_ids: Iterable[DocId]) -> None:
        """Fetch these, if they were not.

        Raises:
            RegistryError: If the database does not answer.
        """
        missing = [(level, doc) for level, doc in doc_ids if doc not in self._documents[level]]
        places = {self._whole.place(DocId(*one)): one for one in missing}
        if not places:
            return
        for place, document in self._whole.documents(places).items():
            level, doc = places[place]
            self._documents[level][doc] = document
        self._index = None

    def _chosen(
        self,
        terms: Mapping[str, float],
        most: int,
        wanted: int,
        allowed: Callable[[DocId], bool],
        servers: frozenset[ServerName] | None,
    ) -> list[DocId]:
        """The allowed of the `most` nearest, at most as many as are wanted."""
        key = len(terms), servers
        known, found = self._nearest.get(key, (0, NearestTools([], are_all=False)))
        if known < most and not found.are_all:
            postings = _MOST_POSTINGS if most == _MOST else _POSTINGS
            found = self._whole.nearest(terms, most, postings=postings, servers=servers)
            self._nearest[key] = most, found
        return [*islice((one for one in found.doc_ids if one and allowed(one)), wanted)]


class _HeldTerms(Mapping[str, PostingList]):
    """The posting lists of some documents, each made at its first use."""

    def __init__(
        self, documents: Mapping[int, StoredDocument], term_key: Callable[[str], int]
    ) -> None:
        self._documents = {doc: documents[doc] for doc in sorted(documents)}
        self._term_key = term_key
        self._lists: dict[str, PostingList] = {}

    def __getitem__(self, term: str) -> PostingList:
        known = self._lists.get(term)
        if known is None:
            pairs = [*held_by(self._documents, self._term_key(term))]
            docs = array(IDS, [doc for doc, _ in pairs]).tobytes()
            known = self._lists[term] = docs, bytes(impact for _, impact in pairs)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)


def _level(
    level: Level, documents: Mapping[int, StoredDocument], term_key: Callable[[str], int]
) -> Level:
    of_all = level.postings
    postings = Postings(of_all.spans, _HeldTerms(documents, term_key), of_all.names, b"")
    # Shared: made again they would cost each query a microsecond for every server.
    postings.__dict__.update(starts=of_all.starts, by_server=of_all.by_server)
    profiles = {doc: document.profile for doc, document in documents.items()}
    postings.__dict__["packed_profiles"] = defaultdict(int, profiles)
    return Level(postings, level.deleted)
