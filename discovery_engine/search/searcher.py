"""The catalog made searchable.

A searcher is immutable and answers from one catalog. The next one is built from it, and indexes
only the servers that changed.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from functools import cached_property, lru_cache
from itertools import compress
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from discovery_engine._util import gc_pause
from discovery_engine.search.index.index import DocId, Index, indexed_servers
from discovery_engine.search.index.storage import dump_index, load_index
from discovery_engine.search.index.subset import Flags, Subset
from discovery_engine.search.index.tags import Tags, TagTable
from discovery_engine.search.query.analyzed_query import AnalyzedQuery
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.query.name_match import (
    NameMatch,
    NameMatchKind,
    is_tool_name,
    match_names,
)
from discovery_engine.search.query.query_passages import split_passages
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.ranking.confidence import (
    FIRST,
    Assessment,
    Signals,
    contains_all_words,
    default_model,
    measure_signals,
    overall_confidence,
)
from discovery_engine.search.ranking.fusion import Fusion
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.search.ranking.inverse_document_frequency import default_idf
from discovery_engine.search.ranking.scoring import score_tools
from discovery_engine.search.text.lexicon import Lexicon, lexicon_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import SearchSettings, Weights
    from discovery_engine.search.ranking.hit_explanation import HitExplanation
    from discovery_engine.search.vectors import Similarities
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

_NO_DESCRIPTIONS: Mapping[ServerName, str] = MappingProxyType({})
_NO_USAGE: Mapping[ToolKey, float] = MappingProxyType({})
_QUERIES_KEPT = 64  # whose terms and nearest tools are remembered: half of a search
_SUBSETS_KEPT = 16  # of tools with some tags
_POOL = 60  # tools that are scored in full
_TIE = 0.03  # of the best relevance; of tools that close, each third pair is in the wrong order
_ROUNDED = 1 - 1e-12  # of a score; closer ones may have the same relevance
_USAGE_SHARE = 0.02  # the most that usage adds: less than separates tools that fit unalike


class Searcher:
    """Made by `build_searcher`."""

    assessed_hits = FIRST
    """How many of the first hits `assess` looks at."""

    def __init__(self, index: Index, weights: Weights, tags: TagTable, lexicon: Lexicon) -> None:
        self._index = index
        self._weights = weights
        self._tags = tags
        self._lexicon = lexicon
        analyzer = QueryAnalyzer(lexicon, index)
        self._analyzer = analyzer
        # Not of bound methods: the cycle would keep an old searcher until the next collection.
        self._analyze = lru_cache(_QUERIES_KEPT)(lambda text: _analyze(index, analyzer, text))
        self._tagged_with = lru_cache(_SUBSETS_KEPT)(
            lambda tags: Subset.of(index, lambda entry: tags.issubset(entry.verdict.tags))
        )

    @property
    def index(self) -> Index:
        return self._index

    @cached_property
    def hidden(self) -> Subset:
        """The tools that are not visible."""
        return Subset.of(self._index, lambda entry: not entry.is_visible)

    @cached_property
    def visible(self) -> Subset:
        """The tools that are."""
        return Subset.of(self._index, lambda entry: entry.is_visible)

    def tools_of(self, servers: Mapping[ServerName, Flags | None]) -> Subset:
        """The tools of some servers: as in `Subset.by_server`."""
        return Subset.by_server(self._index, servers)

    def tools_with(self, tags: frozenset[str]) -> Subset:
        """The tools that carry all of `tags`."""
        return self._tagged_with(tags)

    def has_lexicon(self, lexicon: Lexicon) -> bool:
        """Whether the index was made with `lexicon`, or with one that gives the same terms."""
        return self._lexicon is lexicon or self._lexicon.digest == lexicon.digest

    def is_tool_name(self, text: str) -> bool:
        """Whether a query is the name of a tool, in any spelling."""
        return is_tool_name(self._index, text)

    def dump(self) -> bytes:
        """The index as bytes for `load_searcher`; store them where no other user can write."""
        return dump_index(self._index, self._lexicon)

    def analyze(self, text: str) -> AnalyzedQuery:
        """The query that the other methods take."""
        return self._analyze(text)

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
        """The accepted tools that fit `query`, the best first, at most `limit`.

        With `similarities`, to the query's vector, tools are found by their vectors, too. `usage`
        is how much tools are used, from 0 to 1: of tools that fit equally well, the most used
        comes first. What is not `within` is not accepted either; if it is little, the search is
        cheaper.
        """
        if limit < 1 or not query.text.strip():
            return ()
        tag_shares = self._tags.shares(query.terms.stems)
        most = max(_POOL, 2 * limit)
        found, others = self._found(query, tag_shares, most, accepts, similarities, within)
        scores: Sequence[tuple[DocId, float]] = [
            one for one in self._partial_scores(found, query.terms) if one[1] or one[0] in others
        ]
        if not (tag_shares or query.name_matches or similarities or usage):
            scores = _best(scores, limit)  # words alone decide
        fuse = self._fusion(query, similarities) if similarities else _words_alone
        ranked = []
        for doc_id, words in scores:
            entry = found[doc_id]
            kind, name_similarity = query.name_match(doc_id)
            by_words, by_meaning = fuse(max(words, name_similarity), entry.tool)
            partial = by_words + by_meaning
            parts = self._parts(
                exact=float(kind >= NameMatchKind.SPELLING),
                partial=partial,
                tag=tag_shares.get(entry.verdict.tags, 0.0),
            )
            by_usage = self._usage_part(parts, kind, usage.get(entry.key, 0.0)) if usage else 0.0
            tool = entry.tool
            order = (-kind, -sum(parts) - by_usage, tool.server, tool.name)
            meaning_share = by_meaning / partial if partial else 0.0
            ranked.append((order, entry, parts, meaning_share, by_usage))
        best = heapq.nsmallest(limit, ranked, key=itemgetter(0))
        return tuple(Hit.from_parts(entry, parts, *others) for _, entry, parts, *others in best)

    def explain(self, query: AnalyzedQuery, hit: Hit) -> HitExplanation:
        """Why `query` found `hit`."""
        # Imported here, so that a search on the command line starts quickly.
        from discovery_engine.search.ranking.hit_explanation import Explainer  # noqa: PLC0415

        sources = self._analyzer.term_sources(query.text)
        explainer = Explainer(self._index, self._lexicon, query.terms, sources)
        tags = self._tags.matching(hit.entry.verdict.tags, query.terms.stems)
        return explainer.explain(hit, self._name_match(query, hit), tags)

    def assess(
        self, query: AnalyzedQuery, hits: Sequence[Hit], similarities: Similarities | None = None
    ) -> Assessment:
        """How good `hits` of `query` are: `assessed_hits` at least, if there are so many."""
        terms = query.terms
        if not hits:
            return Assessment(0.0, 0, terms.unknown)
        signals = self.signals(query, hits, default_idf(), similarities)
        model = default_model(with_vectors=signals[0].similarity is not None)
        kinds = [self._name_match(query, hit).kind for hit in hits]
        impacts = self._impacts(hits[0], terms)
        return Assessment(
            confidence=overall_confidence(
                model.probability(signals),
                name_match=kinds[0],
                tagged=self._tags.shares(terms.stems).get(hits[0].entry.verdict.tags, 0.0),
                has_all_words=contains_all_words(terms, impacts, self._lexicon),
            ),
            alike=sum(
                kind is kinds[0] and hit.relevance >= hits[0].relevance * (1 - _TIE)
                for kind, hit in zip(kinds, hits, strict=True)
            ),
            unknown=terms.unknown,
        )

    def signals(
        self,
        query: AnalyzedQuery,
        hits: Sequence[Hit],
        idf: Mapping[str, float],
        similarities: Similarities | None = None,
    ) -> tuple[Signals, ...]:
        """The signals of the first of `hits`, of which there is at least one.

        One `Signals` for each passage of the query: a single one, unless the query is long. `idf`
        has the inverse document frequencies of stems, from 0 to 1.
        """
        first = hits[: self.assessed_hits]
        tools = [hit.entry.tool for hit in first]
        similarity = similarities.relative_best(tools) if similarities else None
        return tuple(
            measure_signals(
                terms,
                [self._impacts(hit, terms) for hit in first],
                lexicon=self._lexicon,
                idf=idf,
                size=self._index.size,
                similarity=similarity,
            )
            for terms in self._passages(query)
        )

    def _passages(self, query: AnalyzedQuery) -> Sequence[QueryTerms]:
        passages = split_passages(query.text)
        return (
            [query.terms]
            if len(passages) == 1
            else [self._analyze(passage).terms for passage in passages]
        )

    def _found(
        self,
        query: AnalyzedQuery,
        tag_shares: Mapping[Tags, float],
        most: int,
        accepts: Callable[[Entry], bool],
        similarities: Similarities | None,
        within: Subset | None,
    ) -> tuple[dict[DocId, Entry], set[DocId]]:
        """The accepted candidates; and which of them are so by name, by tag, or by vector."""
        index = self._index
        seen: dict[DocId, Entry] = {}

        def allowed(doc_id: DocId) -> bool:
            if within is not None and doc_id not in within:
                return False
            entry = seen[doc_id] = index.entry(doc_id)
            return accepts(entry)

        by_words = query.retrieval.find_candidates(least=most, allowed=allowed, within=within)
        others = set(filter(allowed, query.name_matches))
        others.update(self._best_tagged(query.terms, tag_shares, most, allowed, within))
        if similarities:
            others.update(self._most_similar(similarities, most, allowed))
        return {doc_id: seen[doc_id] for doc_id in others.union(by_words)}, others

    def _impacts(self, hit: Hit, terms: QueryTerms) -> dict[str, int]:
        """The impacts of a query's terms on a tool."""
        doc_id = self._index.doc_id(hit.entry.tool)
        return self._index.impacts(doc_id, terms.weights) if doc_id else {}

    def _name_match(self, query: AnalyzedQuery, hit: Hit) -> NameMatch:
        # To look up a tool takes 5 us, for each hit, and few queries are names.
        return query.name_match(self._index.doc_id(hit.entry.tool) if query.name_matches else None)

    def _fusion(
        self, query: AnalyzedQuery, similarities: Similarities
    ) -> Callable[[float, Tool], tuple[float, float]]:
        """Fuses words and vectors; its parameters do not depend on what is filtered out."""
        doc_ids = query.retrieval.find_candidates(least=_POOL, allowed=lambda _: True)
        best = max((words for _, words in self._partial_scores(doc_ids, query.terms)), default=0.0)
        fusion = Fusion(best, similarities.best, similarities.mean)
        return lambda words, tool: fusion.fuse(words, similarities.cosine(tool))

    def _most_similar(
        self, similarities: Similarities, most: int, allowed: Callable[[DocId], bool]
    ) -> Iterable[DocId]:
        def is_allowed(tool: Tool) -> bool:
            doc_id = self._index.doc_id(tool)
            return doc_id is not None and allowed(doc_id)

        nearest = similarities.nearest(most, is_allowed)
        return (doc_id for tool in nearest if (doc_id := self._index.doc_id(tool)))

    def _best_tagged(
        self,
        terms: QueryTerms,
        tag_shares: Mapping[Tags, float],
        most: int,
        allowed: Callable[[DocId], bool],
        within: Subset | None,
    ) -> list[DocId]:
        """Tools of which the query names a tag; of equally good ones, in the order of names."""
        if not tag_shares:
            return []
        index = self._index
        doc_ids = [
            doc_id
            for doc_id in self._tagged(tag_shares, within)
            if index.entry(doc_id).verdict.tags in tag_shares and allowed(doc_id)
        ]
        if len(doc_ids) <= most:
            return doc_ids
        partial = dict(self._partial_scores(doc_ids, terms))

        def relevance(doc_id: DocId) -> float:
            tag = tag_shares[self._index.entry(doc_id).verdict.tags]
            return sum(self._parts(exact=0.0, partial=partial[doc_id], tag=tag))

        return heapq.nlargest(most, doc_ids, key=relevance)

    def _tagged(self, tag_shares: Mapping[Tags, float], within: Subset | None) -> Iterator[DocId]:
        """The tools of all servers that have one with such tags."""
        for server in self._tags.servers(tag_shares):
            number, span = self._index.locate(server)
            docs: Iterable[int] = range(span.start, span.stop)
            if within is not None:
                docs = compress(docs, within.levels[number][span.start : span.stop])
            for doc in docs:
                yield DocId(number, doc)

    def _partial_scores(
        self, doc_ids: Iterable[DocId], terms: QueryTerms
    ) -> Iterator[tuple[DocId, float]]:
        by_level: defaultdict[int, list[int]] = defaultdict(list)
        for level, doc in sorted(doc_ids):
            by_level[level].append(doc)
        for level, docs in by_level.items():
            scores = score_tools(self._index.levels[level].postings, docs, terms)
            for doc, score in zip(docs, scores, strict=True):
                yield DocId(level, doc), score

    @staticmethod
    def _usage_part(parts: tuple[float, ...], kind: NameMatchKind, share: float) -> float:
        """Only for a tool that fits at all; one that is named must not be passed by another."""
        fits = any(parts) and kind is NameMatchKind.NONE
        return (1 - sum(parts)) * _USAGE_SHARE * share if fits else 0.0

    def _parts(self, *, exact: float, partial: float, tag: float) -> tuple[float, float, float]:
        """Noisy-or: each part adds its share of what the parts before it left to 1."""
        by_exact = self._weights.exact * exact
        by_partial = (1 - by_exact) * self._weights.partial * partial
        by_tag = (1 - by_exact - by_partial) * self._weights.tag * tag
        return by_exact, by_partial, by_tag


def load_searcher(
    data: bytes,
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NO_DESCRIPTIONS,
) -> Searcher | None:
    """The searcher over `catalog` from the bytes of `Searcher.dump`, without indexing.

    None if the bytes are damaged, or were made by another version or of another catalog.
    """
    lexicon = lexicon_for(settings.synonyms)
    with gc_pause.paused():
        index = load_index(data, indexed_servers(catalog, descriptions), lexicon)
    if index is None:
        return None
    return Searcher(index, settings.weights, TagTable(index.servers, lexicon), lexicon)


def build_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NO_DESCRIPTIONS,
    previous: Searcher | None = None,
) -> Searcher:
    """A searcher over `catalog`, disabled tools included.

    Args:
        catalog: What to search.
        settings: The weights of the parts of relevance, and the owner's synonyms.
        descriptions: What each server is for.
        previous: The searcher over an earlier catalog; servers that did not change are not
            indexed again, unless the synonyms changed.
    """
    lexicon = lexicon_for(settings.synonyms)
    earlier = previous.index if previous and previous.has_lexicon(lexicon) else Index()
    with gc_pause.paused():
        index = earlier.update(catalog, descriptions, lexicon)
    return Searcher(index, settings.weights, TagTable(index.servers, lexicon), lexicon)


def _analyze(index: Index, analyzer: QueryAnalyzer, text: str) -> AnalyzedQuery:
    terms = analyzer.analyze(text)
    return AnalyzedQuery(text, terms, match_names(index, text, terms), Retrieval(index, terms))


def _best(scores: Sequence[tuple[DocId, float]], limit: int) -> Sequence[tuple[DocId, float]]:
    """The `limit` best and all that equal the last of them, up to rounding."""
    if len(scores) <= limit:
        return scores
    bar = sorted(score for _, score in scores)[-limit] * _ROUNDED
    return [one for one in scores if one[1] >= bar]


def _words_alone(words: float, _: Tool) -> tuple[float, float]:
    return words, 0.0
