"""A searcher whose index is in a database.

The database names the few tools that may be among the first; an ordinary searcher ranks and
assesses these, by the counts of the whole catalog. What is visible is decided here, before
anything is cut off. While the database does not answer, the whole catalog is indexed in memory.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cachetools import LRUCache
from msgspec import field
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine.errors import RegistryError
from discovery_engine.search.index.index import DocId, Index, TagTable
from discovery_engine.search.index.postings import IDS, Postings
from discovery_engine.search.query.retrieval import Candidates, Retrieval
from discovery_engine.search.searcher import Searcher, few_servers
from discovery_engine.search.text.lexicon import Lexicon, lexicon_for
from discovery_engine.store.postgres.search_documents import (
    Place,
    SearchDocuments,
    StoredDocument,
    StoredIndex,
)
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import Calibration, SearchSettings
    from discovery_engine.search.assessment import Gaps
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.search.index.index import Subset
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.query.retrieval import AnalyzedQuery
    from discovery_engine.search.ranking.confidence import Assessment
    from discovery_engine.search.ranking.hit_explanation import HitExplanation
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.search.vectors import Similarities

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GROWS_EACH = 5.0  # seconds after which an index that lacks tools is compared again
NOTED_EACH = 86_400.0
"""Seconds after which the use of an index is noted again."""

_DOCUMENTS_KEPT = 4_000  # the most of one query are some 500
_TINY = 4  # times as many tools as are worth scoring: they are fetched, whatever they hold
# Tools that are fetched beside those worth scoring, as the sums of a database are rough; and one
# more for each so many of all tools, as more of them have about the same sum. Of 400,000 tools
# 0.993 of the first ten were found with 60, 0.997 with 150, 0.9995 with 300.
_MORE = 60
_TOOLS_FOR_MORE = 4_000
_MOST_SCORED = 500  # tools with a tag that is asked for
_MAX_CANDIDATE_TOOLS = 20_000  # tools that are looked at where too few of the first may be shown
# Each posting is a page of the database. Of 100,000 tools 98.5 % of the answers are those of
# memory; with half as many 97.5 %, with all 99 %.
_POSTINGS = 6_000  # that are read at first,
_MOST_POSTINGS = 100_000  # and where too few of the tools that they lead to are allowed


class _Memory:
    """The cached state of a database."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.documents = LRUCache[tuple[int, DocId], StoredDocument](_DOCUMENTS_KEPT)
        self.stored: StoredIndex | None = None
        self.compared_at = 0.0


class DatabaseIndex(Index, frozen=True, dict=True, kw_only=True):
    """An index of all names, whose terms are in the database. Threads may share it.

    All but the names raises `RegistryError` if the database does not answer.
    """

    lexicon: Lexicon
    documents: SearchDocuments
    memory: _Memory = field(default_factory=_Memory)
    is_storable: ClassVar = False  # built again in the time that it takes to read

    def stored(self, *, refresh: bool = False, is_whole: bool = False) -> StoredIndex:
        """Return the stored index; with `refresh`, compare it again, as it may have changed.

        With `is_whole` it has all tools, after minutes if they are many and new.
        """
        memory, age = self.memory, time.monotonic() - self.memory.compared_at
        if (
            memory.stored is None
            or refresh
            or age > NOTED_EACH
            or (memory.stored.missing and (is_whole or age > _GROWS_EACH))
        ):
            memory.stored = self.documents.compare(self.servers, self.lexicon, is_whole=is_whole)
            memory.compared_at = time.monotonic()
        return memory.stored

    def document_frequency(self, term: str) -> int:
        stored = self.stored()
        # Another gateway may have added tools that this one does not know yet.
        return min(stored.counts.get(stored.key(term), 0), self.size)

    def known_terms(self, terms: Collection[str]) -> set[str]:
        stored = self.stored()
        return {term for term in terms if stored.key(term) in stored.counts}

    def profile(self, doc_id: DocId) -> int:
        return self.profiles([doc_id])[0]

    def profiles(self, doc_ids: Iterable[DocId]) -> list[int]:
        ids = [*doc_ids]
        documents = self.fetch(ids)
        return [documents[doc_id].profile if doc_id in documents else 0 for doc_id in ids]

    def impacts(self, doc_id: DocId, terms: Iterable[str]) -> dict[str, int]:
        key, documents = self.stored().key, self.fetch([doc_id])
        impacts = {term: documents[doc_id].impacts.get(key(term)) for term in terms if documents}
        return {term: impact for term, impact in impacts.items() if impact}

    def postings(self, level: int, docs: Sequence[int], terms: Iterable[str]) -> Postings:
        documents = self.fetch([DocId(level, doc) for doc in docs])
        impacts = [
            (doc, documents[doc_id].impacts)
            for doc in docs
            if (doc_id := DocId(level, doc)) in documents
        ]
        lists = {}
        for term in terms:
            key = self.stored().key(term)
            held = [(doc, of_doc[key]) for doc, of_doc in impacts if key in of_doc]
            places = array(IDS, [doc for doc, _ in held]).tobytes()
            lists[term] = places, bytes(impact for _, impact in held)
        return replace(self.levels[level].postings, lists=lists)

    def place(self, doc_id: DocId) -> Place | None:
        """The place of a tool's document; None if the database does not have it yet."""
        server, start, _ = self.levels[doc_id.level].postings.span_of(doc_id.doc)
        number = self.stored().numbers.get(server)
        return None if number is None else Place(number, doc_id.doc - start)

    def doc_at(self, place: Place) -> DocId | None:
        """The tool whose document is there; None if this catalog has another one."""
        if (server := self.stored().names.get(place.number)) is None:
            return None
        level, span = self.locate(server)
        return DocId(level, span.start + place.position)

    def nearest(
        self,
        terms: Mapping[str, float],
        most: int,
        *,
        postings: int,
        servers: Collection[ServerName] | None,
    ) -> list[DocId]:
        """The tools that hold most of the terms, about, the best first."""
        for is_changed in (False, True, True):
            places = self.documents.nearest(
                self.stored(refresh=is_changed), terms, most, postings=postings, servers=servers
            )
            if places is not None:
                return [*filter(None, map(self.doc_at, places))]
        raise RegistryError("the index of the tools changes all the time")

    def fetch(self, doc_ids: Sequence[DocId]) -> dict[DocId, StoredDocument]:
        """The documents of these tools."""
        memory, number = self.memory, self.stored().number
        with memory.lock:
            entries = {doc_id: memory.documents.get((number, doc_id)) for doc_id in doc_ids}
        documents = {doc_id: document for doc_id, document in entries.items() if document}
        missing = (doc_id for doc_id in doc_ids if doc_id not in documents)
        places = {place: doc_id for doc_id in missing if (place := self.place(doc_id))}
        for place, document in self.documents.documents(places).items():
            documents[places[place]] = document
            with memory.lock:
                memory.documents[number, places[place]] = document
        return documents


class _Retrieval(Retrieval):
    """The candidates of one query, as the database names them."""

    def __init__(self, index: Index, query: QueryTerms) -> None:
        super().__init__(index, query)
        assert isinstance(index, DatabaseIndex)  # noqa: S101 - as `DatabaseSearcher` has it
        self._stored = index
        self._nearest_of = dict[tuple[int, frozenset[ServerName] | None], list[DocId]]()

    def find_candidates(
        self, *, least: int, allowed: Callable[[DocId], bool], within: Subset | None = None
    ) -> Candidates:
        """Find candidates among tools that the database names: more, as its sums are rough."""
        index = self._stored
        count = least + _MORE + index.size // _TOOLS_FOR_MORE
        if within is not None and within.size <= _TINY * least:
            chosen = [*filter(allowed, within)]
        else:
            servers = few_servers(index, within)
            near = self._near(2 * count, _POSTINGS, servers)
            chosen = [*islice(filter(allowed, near), count)]
            if len(chosen) < count:
                servers = frozenset(within.servers(index)) if within is not None else None
                near = self._near(_MAX_CANDIDATE_TOOLS, _MOST_POSTINGS, servers)
                chosen = [*islice(filter(allowed, near), count)]
        by_level = defaultdict[int, list[int]](list)
        for number, doc in sorted(chosen):
            by_level[number].append(doc)
        levels = tuple(
            replace(level, postings=index.postings(number, by_level[number], self._query.weights))
            for number, level in enumerate(index.levels)
        )
        among = Retrieval(replace(index, levels=levels), self._query)
        return among.find_candidates(least=least, allowed=allowed, within=within)

    def among(self, doc_ids: list[DocId], most: int) -> list[DocId]:
        if len(doc_ids) <= _MOST_SCORED:
            return doc_ids
        near = self.find_candidates(least=most, allowed=frozenset(doc_ids).__contains__)
        return [*near.doc_ids, *doc_ids[:most]]

    def _near(self, most: int, postings: int, servers: frozenset[ServerName] | None) -> list[DocId]:
        if (near := self._nearest_of.get((most, servers))) is None:
            weights = self._query.weights
            near = self._stored.nearest(weights, most, postings=postings, servers=servers)
            self._nearest_of[most, servers] = near
        return near


class DatabaseSearcher(Searcher):
    """Calls may wait for the database: code in an event loop makes them in a thread.

    Args:
        index: Has the names of all tools.
        settings: The weights of the parts of relevance.
        open_local: Makes a searcher over the same catalog that needs no database.
    """

    def __init__(
        self, index: DatabaseIndex, settings: SearchSettings, open_local: Callable[[], Searcher]
    ) -> None:
        tags = TagTable(index.servers, index.lexicon)
        super().__init__(index, settings.weights, tags, index.lexicon, retrieval=_Retrieval)
        self.database_index = index
        self._open_local = open_local
        self._local: Searcher | None = None
        self._analyzed_by: StoredIndex | None = None
        self._opening = threading.Lock()

    @property
    def unindexed(self) -> int:
        stored = self.database_index.memory.stored
        return stored.missing if stored and self._local is None else 0

    def complete(self) -> None:
        try:
            self.database_index.stored(is_whole=True)
        except RegistryError as error:
            logger.info("The database is not searched: %s", error.message)

    def analyze(self, text: str) -> AnalyzedQuery:
        try:
            stored = self.database_index.stored()
        except RegistryError:
            return self._local_searcher().analyze(text)
        if stored is not self._analyzed_by:  # what was found of fewer tools does not count
            self._analyzed_by = stored
            self._analyze.cache_clear()
        return super().analyze(text)

    def search(self, query: AnalyzedQuery, **how: Any) -> tuple[Hit, ...]:
        return self._answer(Searcher.search, query, **how)

    def assess(
        self,
        query: AnalyzedQuery,
        hits: Sequence[Hit],
        similarities: Similarities | None = None,
        calibration: Calibration | None = None,
    ) -> Assessment:
        return self._answer(Searcher.assess, query, hits, similarities, calibration)

    def gaps(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> Gaps:
        return self._answer(Searcher.gaps, query, hits)

    def explain(self, query: AnalyzedQuery, hit: Hit) -> HitExplanation:
        return self._answer(Searcher.explain, query, hit)

    def _answer(
        self, method: Callable[..., T], query: AnalyzedQuery, *values: Any, **how: Any
    ) -> T:
        """Call `method` of this searcher, or of one in memory while the database is unavailable."""
        if isinstance(query.retrieval, _Retrieval):
            try:
                answer = method(self, query, *values, **how)
            except RegistryError as error:
                logger.info("The database is not searched: %s", error.message)
            else:
                self._local = None
                return answer
        local = self._local_searcher()
        if within := how.pop("within", None):  # of places in the other index
            accepts, place = how["accepts"], self._index.doc_id
            how["accepts"] = lambda entry: place(entry.tool) in within and accepts(entry)
        return method(local, local.analyze(query.text), *values, **how)

    def _local_searcher(self) -> Searcher:
        with self._opening:
            if self._local is None:
                self._local = self._open_local()
            return self._local


def open_database_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str],
    book: ExampleBook,
    documents: SearchDocuments,
    open_local: Callable[[], Searcher],
    previous: Searcher | None = None,
) -> DatabaseSearcher:
    """A searcher over `catalog`, of which the database has the documents if it answers.

    `previous` is the one over an earlier catalog, so that only what changed is read again.
    """
    lexicon = lexicon_for(settings.synonyms)
    earlier = previous.index if isinstance(previous, DatabaseSearcher) else Index()
    with gc_pause.paused():
        names = earlier.update(catalog, descriptions, lexicon, book, names_only=True)
    index = DatabaseIndex(names.levels, names.servers, lexicon=lexicon, documents=documents)
    try:
        index.stored()
    except RegistryError as error:
        logger.info("The database is not searched: %s", error.message)
    return DatabaseSearcher(index, settings, open_local)
