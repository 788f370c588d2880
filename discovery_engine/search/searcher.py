"""The catalog made searchable.

A searcher is immutable and answers from one catalog. The next one is built from it, and indexes
only the servers that changed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from functools import cached_property, lru_cache, partial
from itertools import compress, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from discovery_engine._util import gc_pause
from discovery_engine.search.assessment import Assessor
from discovery_engine.search.examples.book import OWN_EXAMPLES
from discovery_engine.search.index.index import (
    DocId,
    Flags,
    Index,
    Subset,
    TagTable,
    dump_index,
    indexed_servers,
    load_index,
)
from discovery_engine.search.operations.operation import ELSEWHERE
from discovery_engine.search.query.analyzer import QueryAnalyzer
from discovery_engine.search.query.retrieval import (
    AnalyzedQuery,
    NameMatchKind,
    Retrieval,
    is_tool_name,
    match_names,
)
from discovery_engine.search.ranking.confidence import FIRST, Assessment
from discovery_engine.search.ranking.relevance import (
    Fusion,
    Hit,
    agreement_with,
    name_likeness,
    relevance_parts,
    score_tools,
    shares_of,
    usage_part,
)
from discovery_engine.search.text.lexicon import Lexicon, lexicon_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import Calibration, SearchSettings, Weights
    from discovery_engine.search.assessment import Gaps
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.search.index.index import Tags
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.ranking.hit_explanation import HitExplanation
    from discovery_engine.search.ranking.relevance import Agreement
    from discovery_engine.search.vectors import Similarities
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

    _Order: TypeAlias = tuple[int, float]
    _Ranked: TypeAlias = tuple[_Order, Entry, tuple[float, float, float], float, float, float]
    """A tool with its place, the parts of its relevance, and the shares of the other signals."""
    from collections.abc import Collection

    from discovery_engine.catalog import Entry
    from discovery_engine.search.query.retrieval import Candidates

_NO_DESCRIPTIONS: Mapping[ServerName, str] = MappingProxyType({})
_NO_USAGE: Mapping[ToolKey, float] = MappingProxyType({})
_QUERIES_KEPT = 64  # whose terms and nearest tools are remembered: half of a search
_SUBSETS_KEPT = 16  # of tools with some tags
_ROUNDED = 1 - 1e-12  # of a score; closer ones may have the same relevance


class Searcher:
    """Made by `build_searcher`."""

    assessed_hits = FIRST
    """The number of first hits that `assess` looks at."""

    def __init__(
        self,
        index: Index,
        weights: Weights,
        tags: TagTable,
        lexicon: Lexicon,
        retrieval: Callable[[Index, QueryTerms], Retrieval] = Retrieval,
    ) -> None:
        self._index = index
        self._weights = weights
        self._tags = tags
        self._lexicon = lexicon
        self._candidates = CandidateFinder(index, weights, tags)
        analyzer = QueryAnalyzer(lexicon, index)
        self._analyzer = analyzer
        # Not of bound methods: the cycle would keep an old searcher until the next collection.
        self._analyze = lru_cache(_QUERIES_KEPT)(
            lambda text: _analyze(index, analyzer, text, retrieval)
        )
        self._tagged_with = lru_cache(_SUBSETS_KEPT)(
            lambda tags, any_tag: Subset.of(
                index, lambda entry: entry.verdict.carries(tags, any_tag=any_tag)
            )
        )
        analyze = self._analyze
        self.assessor = Assessor(index, tags, lexicon, lambda text: analyze(text).terms)

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

    def tools_with(self, tags: frozenset[str], *, any_tag: bool = False) -> Subset:
        """The tools that carry all of `tags`, or with `any_tag` one of them."""
        return self._tagged_with(tags, any_tag)

    def has_lexicon(self, lexicon: Lexicon) -> bool:
        """Return whether the index was made with `lexicon`, or one that gives the same terms."""
        return self._lexicon is lexicon or self._lexicon.digest == lexicon.digest

    def is_tool_name(self, text: str) -> bool:
        """Return whether a query is the name of a tool, in any spelling."""
        return is_tool_name(self._index, text)

    @property
    def is_storable(self) -> bool:
        """True if `dump` may be stored; if not, the next run would lack requests not read now."""
        return self._index.is_storable

    def dump(self) -> bytes:
        """The index as bytes for `load_searcher`; store them where no other user can write."""
        return dump_index(self._index, self._lexicon)

    @property
    def unindexed(self) -> int:
        """The number of tools found by their names alone, as their words are not indexed yet."""
        return 0

    def complete(self) -> None:
        """Index the tools that are `unindexed`, which may take minutes; it blocks."""

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
        entries, scores = self._candidates.find(
            query,
            tag_shares,
            most=max(POOL, 2 * limit),
            accepts=accepts,
            similarities=similarities,
            within=within,
        )
        agreement = agreement_with(query.reading)
        if not (tag_shares or query.name_matches or similarities or usage):
            # Words and agreement alone decide.
            profiles = self._profiles(query, entries, [doc_id for doc_id, _ in scores])
            moved = agreement.adjusted_all([words for _, words in scores], profiles)
            scores = _best(scores, moved, limit)
        if similarities:
            similarities.prefetch(entries[doc_id].tool for doc_id, _ in scores)
        fuse = self._fusion(query, similarities) if similarities else _words_alone
        ranked = self._ranked(query, entries, scores, fuse, agreement, tag_shares, usage)
        return tuple(_hits(query, ranked, limit))

    def _ranked(
        self,
        query: AnalyzedQuery,
        entries: Mapping[DocId, Entry],
        scores: Iterable[tuple[DocId, float]],
        fuse: Callable[[float, Tool], tuple[float, float]],
        agreement: Agreement,
        tag_shares: Mapping[Tags, float],
        usage: Mapping[ToolKey, float],
    ) -> list[_Ranked]:
        """The found tools with the parts of their relevance; they are in no order yet."""
        ranked = []
        scored = [*scores]
        profiles = self._profiles(query, entries, [doc_id for doc_id, _ in scored])
        for (doc_id, words), profile in zip(scored, profiles, strict=True):
            entry = entries[doc_id]
            kind, name_similarity = query.name_match(doc_id)
            by_words, by_meaning = fuse(max(words, name_similarity), entry.tool)
            partial = fused = by_words + by_meaning
            if kind is NameMatchKind.NONE:  # a tool that is named is what is asked for
                partial = agreement.adjusted(fused, profile)
            parts = relevance_parts(
                self._weights,
                exact=float(kind >= NameMatchKind.SPELLING),
                partial=partial,
                tag=tag_shares.get(entry.verdict.tags, 0.0),
            )
            by_usage = 0.0
            if usage and kind is NameMatchKind.NONE:  # no other tool passes one that is named
                by_usage = usage_part(parts, usage.get(entry.key, 0.0))
            order = (-kind, -sum(parts) - by_usage)
            meaning_share = by_meaning / partial if partial else 0.0
            agreement_share = (partial - fused) / partial if partial else 0.0
            ranked.append((order, entry, parts, meaning_share, agreement_share, by_usage))
        return ranked

    def _profiles(
        self, query: AnalyzedQuery, entries: Mapping[DocId, Entry], doc_ids: Sequence[DocId]
    ) -> list[int]:
        """The packed profiles of tools; with `ELSEWHERE` if the query names other servers."""
        profiles = self._index.profiles(doc_ids)
        if not (named := self.assessor.mentions(query).servers):
            return profiles
        return [
            profile if entries[doc_id].tool.server in named else profile | ELSEWHERE
            for doc_id, profile in zip(doc_ids, profiles, strict=True)
        ]

    def candidates(self, query: AnalyzedQuery) -> list[tuple[ToolKey, float, int]]:
        """The tools that are likely to fit by words: scores without agreement, and profiles.

        The best first. For fitting the agreement.
        """
        entries, scores = self._candidates.find(
            query, {}, most=POOL, accepts=lambda _: True, similarities=None, within=None
        )
        scores.sort(key=lambda pair: (-pair[1], entries[pair[0]].key))
        return [
            (entries[doc_id].key, score, self._index.profile(doc_id))
            for doc_id, score in scores
            if score
        ]

    def explain(self, query: AnalyzedQuery, hit: Hit) -> HitExplanation:
        """Explain why `query` found `hit`."""
        # Imported here, so that a search on the command line starts quickly.
        from discovery_engine.search.ranking.hit_explanation import Explainer  # noqa: PLC0415

        sources = self._analyzer.term_sources(query.text)
        explainer = Explainer(
            self._index,
            self._lexicon,
            query.terms,
            sources,
            agreement_with(query.reading),
            self._weights.partial,
            lambda doc_id: self._profiles(query, {doc_id: hit.entry}, [doc_id])[0],
        )
        tags = self._tags.matching(hit.entry.verdict.tags, query.terms.stems)
        return explainer.explain(hit, self.assessor.name_match(query, hit), tags)

    def assess(
        self,
        query: AnalyzedQuery,
        hits: Sequence[Hit],
        similarities: Similarities | None = None,
        calibration: Calibration | None = None,
    ) -> Assessment:
        """Assess a query by its hits, of which the first `assessed_hits` are needed."""
        return self.assessor.assess(query, hits, similarities, calibration)

    def gaps(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> Gaps:
        """Return what the first of `hits` all lack of `query`; there is at least one hit."""
        return self.assessor.gaps(query, hits)

    def is_order(self, query: AnalyzedQuery) -> bool:
        """Return whether an English query is a verb with its object, and little else."""
        return self.assessor.is_order(query)

    def _fusion(
        self, query: AnalyzedQuery, similarities: Similarities
    ) -> Callable[[float, Tool], tuple[float, float]]:
        """Fuses words and vectors; its parameters do not depend on what is filtered out."""
        best = self._candidates.best_score(query)
        fusion = Fusion(best, similarities.best, similarities.mean, similarities.is_static)
        return lambda words, tool: fusion.fuse(words, similarities.cosine(tool))


def load_searcher(
    data: bytes,
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NO_DESCRIPTIONS,
    book: ExampleBook = OWN_EXAMPLES,
) -> Searcher | None:
    """The searcher over `catalog` from the bytes of `Searcher.dump`, without indexing.

    None if the bytes are damaged, or were made by another version or of another catalog.
    """
    lexicon = lexicon_for(settings.synonyms)
    with gc_pause.paused():
        index = load_index(data, indexed_servers(catalog, descriptions, book), lexicon)
    if index is None:
        return None
    return Searcher(index, settings.weights, TagTable(index.servers, lexicon), lexicon)


def build_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NO_DESCRIPTIONS,
    book: ExampleBook = OWN_EXAMPLES,
    previous: Searcher | None = None,
) -> Searcher:
    """A searcher over `catalog`, disabled tools included.

    Args:
        catalog: What to search.
        settings: The weights of the parts of relevance, and the owner's synonyms.
        descriptions: What each server is for.
        book: Knows typical requests of tools; the owner's alone if it is left out.
        previous: The searcher over an earlier catalog; servers that did not change are not
            indexed again, unless the synonyms changed.
    """
    lexicon = lexicon_for(settings.synonyms)
    earlier = previous.index if previous and previous.has_lexicon(lexicon) else Index()
    with gc_pause.paused():
        index = earlier.update(catalog, descriptions, lexicon, book)
    return Searcher(index, settings.weights, TagTable(index.servers, lexicon), lexicon)


def _analyze(
    index: Index,
    analyzer: QueryAnalyzer,
    text: str,
    retrieval: Callable[[Index, QueryTerms], Retrieval],
) -> AnalyzedQuery:
    terms, reading = analyzer.analyze_and_read(text)
    names = match_names(index, text, terms)
    return AnalyzedQuery(text, terms, names, reading, retrieval(index, terms))


def _best(
    scores: list[tuple[DocId, float]], moved: list[float], limit: int
) -> list[tuple[DocId, float]]:
    """The `limit` with the best `moved` scores and all that equal the last, up to rounding."""
    if len(scores) <= limit:
        return scores
    bar = sorted(moved)[-limit] * _ROUNDED
    return [candidate for candidate, score in zip(scores, moved, strict=True) if score >= bar]


def _hits(query: AnalyzedQuery, ranked: list[_Ranked], limit: int) -> Iterator[Hit]:
    """The first of them; of equal ones those with the name that is most like the query."""
    equal = Counter(order for order, *_ in ranked)
    likeness = name_likeness(query.reading.text) if len(equal) < len(ranked) else _no_likeness

    def place(order: _Order, tool: Tool) -> tuple[int, float, int, str, str]:
        unlikeness = -likeness(tool.name) if equal[order] > 1 else 0
        return (*order, unlikeness, tool.server, tool.name)

    best = heapq.nsmallest(
        limit, ranked, key=lambda candidate: place(candidate[0], candidate[1].tool)
    )
    for _, entry, parts, *others in best:
        yield Hit.from_parts(entry, parts, *others)


def _no_likeness(_: str) -> int:
    return 0


def _words_alone(words: float, _: Tool) -> tuple[float, float]:
    return words, 0.0


POOL = 60
"""Tools that are scored in full."""
_NARROW = 0.25  # of all tools; among fewer, no others are compared where that takes long


def few_servers(index: Index, within: Subset | None) -> frozenset[ServerName] | None:
    """The servers of a subset; None if it is no small part of all tools."""
    if within is None or within.size >= _NARROW * index.size:
        return None
    return frozenset(within.servers(index))


class CandidateFinder:
    def __init__(self, index: Index, weights: Weights, tags: TagTable) -> None:
        self._index = index
        self._weights = weights
        self._tags = tags

    def find(
        self,
        query: AnalyzedQuery,
        tag_shares: Mapping[Tags, float],
        *,
        most: int,
        accepts: Callable[[Entry], bool],
        similarities: Similarities | None,
        within: Subset | None,
    ) -> tuple[dict[DocId, Entry], list[tuple[DocId, float]]]:
        """The accepted candidates, about `most` of each kind, and their scores by words."""
        index = self._index
        seen: dict[DocId, Entry] = {}

        def allowed(doc_id: DocId) -> bool:
            if within is not None and doc_id not in within:
                return False
            entry = seen[doc_id] = index.entry(doc_id)
            return accepts(entry)

        by_words = query.retrieval.find_candidates(least=most, allowed=allowed, within=within)
        others = set(filter(allowed, query.name_matches))
        others.update(self._best_tagged(query, tag_shares, most, allowed, within))
        if similarities:
            others.update(self._most_similar(similarities, most, allowed, within))
        scores = self._scores_with(by_words, others, query.terms)
        # By words alone only what has a score is found.
        return seen, [candidate for candidate in scores if candidate[1] or candidate[0] in others]

    def best_score(self, query: AnalyzedQuery) -> float:
        """The best score by words of all tools, whatever is accepted."""
        by_words = query.retrieval.find_candidates(least=POOL, allowed=lambda _: True)
        scores = self._scores_with(by_words, (), query.terms)
        return max((score for _, score in scores), default=0.0)

    def _most_similar(
        self,
        similarities: Similarities,
        most: int,
        allowed: Callable[[DocId], bool],
        within: Subset | None,
    ) -> Iterable[DocId]:
        doc_ids: dict[ToolKey, DocId] = {}

        def is_allowed(tool: Tool) -> bool:
            doc_id = self._index.doc_id(tool)
            if doc_id is None or not allowed(doc_id):
                return False
            doc_ids[tool.key] = doc_id
            return True

        servers = partial(few_servers, self._index, within)
        nearest = similarities.nearest(most, is_allowed, servers)
        return [doc_ids[tool.key] for tool in nearest]

    def _best_tagged(
        self,
        query: AnalyzedQuery,
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
        doc_ids = query.retrieval.among(doc_ids, most)
        partial = dict(self._scores(doc_ids, query.terms))

        def relevance(doc_id: DocId) -> float:
            tag = tag_shares[self._index.entry(doc_id).verdict.tags]
            return sum(relevance_parts(self._weights, exact=0.0, partial=partial[doc_id], tag=tag))

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

    def _scores_with(
        self, by_words: Candidates, others: Collection[DocId], terms: QueryTerms
    ) -> list[tuple[DocId, float]]:
        """The scores of candidates and others; sums that are final are not added up again."""
        doc_ids = by_words.doc_ids
        if terms.clauses or not by_words.are_by_all_terms:
            return [*self._scores({*doc_ids, *others}, terms)]
        shares = shares_of([total for total, _ in by_words.scored], terms)
        scored = [*zip(doc_ids, shares, strict=True)]
        return [*scored, *self._scores(set(others).difference(doc_ids), terms)]

    def _scores(self, doc_ids: Iterable[DocId], terms: QueryTerms) -> Iterator[tuple[DocId, float]]:
        for level, group in groupby(sorted(doc_ids), itemgetter(0)):
            some = [*group]
            docs = [doc for _, doc in some]
            postings = self._index.postings(level, docs, terms.weights)
            scores = score_tools(postings, docs, terms)
            yield from zip(some, scores, strict=True)
