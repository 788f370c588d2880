"""A searcher whose index is in a database, with one of its own for the time it does not answer.

Of each query it fetches the few tools that may be among the first, and lets an ordinary searcher
rank and assess them. What is visible is decided here, before anything is cut off. It has no index
of its own but the names, until the database is gone: then it makes that of the whole catalog, and
drops it once the database answers again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from cachetools import LRUCache
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine.errors import RegistryError
from discovery_engine.search.candidate_finder import POOL, few_servers
from discovery_engine.search.database.fetched_documents import FetchedDocuments
from discovery_engine.search.database.stored_catalog import IndexChangedError
from discovery_engine.search.index.index import Index
from discovery_engine.search.index.tags import TagTable
from discovery_engine.search.query.analyzed_query import AnalyzedQuery
from discovery_engine.search.query.analyzer import QueryAnalyzer
from discovery_engine.search.query.name_match import match_names
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.searcher import Searcher
from discovery_engine.search.text.lexicon import Lexicon, lexicon_for

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import SearchSettings
    from discovery_engine.search.database.stored_catalog import StoredCatalog
    from discovery_engine.search.database.synchronization import SearchSynchronization
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.search.index.index import DocId
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.ranking.confidence import Assessment
    from discovery_engine.search.ranking.gaps import Gaps
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.search.ranking.hit_explanation import HitExplanation
    from discovery_engine.search.vectors import Similarities
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

logger = logging.getLogger(__name__)

_NO_USAGE: Mapping[ToolKey, float] = MappingProxyType({})
_QUERIES_KEPT = 64
_ATTEMPTS = 3  # in the last one the index may have been changed meanwhile


class _Answering(Retrieval):
    """What answers a query: a searcher over fetched documents, or one that needs no database."""

    def __init__(
        self, query: AnalyzedQuery, fetched: FetchedDocuments | None, local: Searcher | None = None
    ) -> None:
        """`query` is analyzed for the fetched documents, or else for the other searcher."""
        super().__init__(Index(), query.terms)
        self.query = query
        self.fetched = fetched
        self.local = local


class DatabaseSearcher(Searcher):
    """Calls may wait for the database: code in an event loop makes them in a thread.

    Args:
        names: The index of the names of all tools.
        settings: The weights of the parts of relevance.
        lexicon: Analyzes queries.
        documents: Has the documents of the tools in the database.
        open_local: Makes a searcher over the same catalog that needs no database.
    """

    def __init__(
        self,
        names: Index,
        settings: SearchSettings,
        lexicon: Lexicon,
        *,
        documents: SearchSynchronization,
        open_local: Callable[[], Searcher],
    ) -> None:
        super().__init__(names, settings.weights, TagTable(names.servers, lexicon), lexicon)
        self._documents = documents
        self._open_local = open_local
        self._stored: StoredCatalog | None = None
        self._local: Searcher | None = None
        self._queries: LRUCache[str, AnalyzedQuery] = LRUCache(_QUERIES_KEPT)
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @property
    def is_storable(self) -> bool:
        return False  # the index of names alone is made anew in the time that it takes to read

    def prepare(self) -> None:
        """Let the database have the documents of all tools; no-op if it does not answer."""
        try:
            self.stored_catalog()
        except RegistryError as error:
            logger.info("The database is not searched: %s", error.message)

    def stored_catalog(self, *, is_anew: bool = False) -> StoredCatalog:
        """The catalog, of which the database has the documents.

        With `is_anew` it is compared with the database once more, which may have dropped some.

        Raises:
            RegistryError: If the database does not answer.
        """
        if self._stored is None or is_anew:
            self._stored = self._documents.stored_catalog(self._index, self._lexicon)
        return self._stored

    def analyze(self, text: str) -> AnalyzedQuery:
        with self._lock:
            known = self._queries.get(text)
        if known is None:
            known = self._analyzed(text)
        with self._lock:
            if _answering(known).local is None:
                self._queries[text] = known
        return known

    def search(
        self,
        query: AnalyzedQuery,
        *,
        limit: int,
        accepts: Callable[[Entry], bool],
        similarities: Similarities | None = None,
        usage: Mapping[ToolKey, float] = _NO_USAGE,
        within: Subset | None = None,
    ) -> tuple[Hit, ...]:
        if limit < 1 or not query.text.strip():
            return ()
        least = max(POOL, 2 * limit)

        def fetch(fetched: FetchedDocuments, asked: AnalyzedQuery) -> None:
            self._fetch(fetched, asked, least, accepts, similarities, within)

        searcher, asked = self._ready(query, fetch)
        if within is not None and _answering(query).local:
            within = self._translated(within, searcher)
        return searcher.search(
            asked,
            limit=limit,
            accepts=accepts,
            similarities=similarities,
            usage=usage,
            within=within,
        )

    def candidates(self, query: AnalyzedQuery) -> list[tuple[ToolKey, float, int]]:
        searcher, asked = self._ready(query, lambda fetched, _: fetched.cover(POOL, _any, None))
        return searcher.candidates(asked)

    def explain(self, query: AnalyzedQuery, hit: Hit) -> HitExplanation:
        searcher, asked = self._holding(query, [hit])
        return searcher.explain(asked, hit)

    def assess(
        self, query: AnalyzedQuery, hits: Sequence[Hit], similarities: Similarities | None = None
    ) -> Assessment:
        searcher, asked = self._holding(query, hits[: self.assessed_hits])
        return searcher.assess(asked, hits, similarities)

    def gaps(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> Gaps:
        searcher, asked = self._holding(query, hits[: self.assessed_hits])
        return searcher.gaps(asked, hits)

    def _holding(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> tuple[Searcher, AnalyzedQuery]:
        doc_ids = [one for hit in hits if (one := self._index.doc_id(hit.entry.tool))]
        return self._ready(query, lambda fetched, _: fetched.hold(doc_ids))

    def _fetch(
        self,
        fetched: FetchedDocuments,
        query: AnalyzedQuery,
        least: int,
        accepts: Callable[[Entry], bool],
        similarities: Similarities | None,
        within: Subset | None,
    ) -> None:
        """Fetch all that may be among the first, as `CandidateFinder` finds them."""
        index, tags = self._index, self._tags.shares(query.terms.stems)

        def allowed(doc_id: DocId) -> bool:
            return (within is None or doc_id in within) and accepts(index.entry(doc_id))

        def is_tagged(doc_id: DocId) -> bool:
            return index.entry(doc_id).verdict.tags in tags and allowed(doc_id)

        fetched.cover(least, allowed, within)
        if tags:
            fetched.cover(least, is_tagged, within)
        fetched.hold(filter(allowed, query.name_matches))
        if similarities:
            fetched.cover(POOL, _any, None)  # the best of all tools decides how both are fused
            nearest = similarities.nearest(
                least,
                lambda tool: _is_held(index, tool, allowed),
                partial(few_servers, index, within),
            )
            fetched.hold(one for tool in nearest if (one := index.doc_id(tool)))

    def _ready(
        self, query: AnalyzedQuery, fetch: Callable[[FetchedDocuments, AnalyzedQuery], None]
    ) -> tuple[Searcher, AnalyzedQuery]:
        """What answers a query, after it fetched what is needed, and the query for that."""
        answering = _answering(query)
        for attempt in range(_ATTEMPTS):
            if answering.fetched is None:
                break
            try:
                fetch(answering.fetched, answering.query)
            except IndexChangedError:
                self._begin_again(answering, is_last=attempt == _ATTEMPTS - 2)
            except RegistryError:
                self._go_local(answering)
            else:
                self._local = None
                index = answering.fetched.index
                asked = answering.query
                return (
                    Searcher(index, self._weights, self._tags, self._lexicon),
                    replace(asked, retrieval=Retrieval(index, asked.terms)),
                )
        if answering.local is None:
            self._go_local(answering)
        assert answering.local  # noqa: S101 - set by then
        return answering.local, answering.query

    def _begin_again(self, answering: _Answering, *, is_last: bool) -> None:
        """Compare the catalog with the database once more, and analyze the query by that."""
        try:
            stored = replace(self.stored_catalog(is_anew=True), may_differ=is_last)
        except RegistryError:
            self._go_local(answering)
        else:
            again = _answering(self._analyzed_with(stored, answering.query.text))
            answering.query, answering.fetched = again.query, again.fetched

    def _go_local(self, answering: _Answering) -> None:
        with self._lock:
            self._queries.pop(answering.query.text, None)  # it would keep that searcher
        local = self._local_searcher()
        answering.query = local.analyze(answering.query.text)
        answering.local, answering.fetched = local, None

    def _local_searcher(self) -> Searcher:
        with self._opening:
            if self._local is None:
                self._local = self._open_local()
            return self._local

    def _analyzed(self, text: str) -> AnalyzedQuery:
        try:
            return self._analyzed_with(self.stored_catalog(), text)
        except RegistryError:
            local = self._local_searcher()
            query = local.analyze(text)
            return replace(query, retrieval=_Answering(query, None, local))

    def _analyzed_with(self, stored: StoredCatalog, text: str) -> AnalyzedQuery:
        analyzer = QueryAnalyzer(self._lexicon, stored)
        terms, reading = analyzer.analyze_and_read(text)
        names = match_names(self._index, text, terms)
        fetched = FetchedDocuments(stored, terms)
        query = AnalyzedQuery(text, terms, names, reading, Retrieval(fetched.index, terms))
        return replace(query, retrieval=_Answering(query, fetched))

    def _translated(self, within: Subset, searcher: Searcher) -> Subset:
        """The same tools in the index of another searcher over the same catalog."""
        chosen = {}
        for number, level in enumerate(self._index.levels):
            for span in level.postings.spans:
                if not level.is_deleted(span):
                    chosen[span.server] = within.levels[number][span.start : span.stop]
        return searcher.tools_of(chosen)


def open_database_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str],
    book: ExampleBook,
    documents: SearchSynchronization,
    open_local: Callable[[], Searcher],
    previous: Searcher | None = None,
) -> DatabaseSearcher:
    """A searcher over `catalog`, of which the database has the documents if it answers.

    `previous` is the one over an earlier catalog, so that only what changed is read anew.
    """
    lexicon = lexicon_for(settings.synonyms)
    earlier = previous.index if isinstance(previous, DatabaseSearcher) else Index()
    with gc_pause.paused():
        names = earlier.update(catalog, descriptions, lexicon, book, names_only=True)
    searcher = DatabaseSearcher(
        names, settings, lexicon, documents=documents, open_local=open_local
    )
    searcher.prepare()
    return searcher


def _answering(query: AnalyzedQuery) -> _Answering:
    assert isinstance(query.retrieval, _Answering)  # noqa: S101 - made by `analyze`
    return query.retrieval


def _any(_: DocId) -> bool:
    return True


def _is_held(index: Index, tool: Tool, allowed: Callable[[DocId], bool]) -> bool:
    doc_id = index.doc_id(tool)
    return doc_id is not None and allowed(doc_id)
