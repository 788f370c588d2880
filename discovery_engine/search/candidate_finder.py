"""The candidates of a query: found by its words, by its name, by a tag, and by its vector."""

from __future__ import annotations

import heapq
from functools import partial
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.ranking.relevance import relevance_parts
from discovery_engine.search.ranking.scoring import score_tools, shares_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Weights
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.index.tags import Tags, TagTable
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.query.retrieval import Candidates
    from discovery_engine.search.vectors import Similarities
    from discovery_engine.tools.model import ServerName, Tool

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
        def is_allowed(tool: Tool) -> bool:
            doc_id = self._index.doc_id(tool)
            return doc_id is not None and allowed(doc_id)

        servers = partial(few_servers, self._index, within)
        nearest = similarities.nearest(most, is_allowed, servers)
        return (doc_id for tool in nearest if (doc_id := self._index.doc_id(tool)))

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
