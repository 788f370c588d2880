"""How good the hits of a query are: how sure it is that one fits, and how many fit equally well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.search.query.query_passages import split_passages
from discovery_engine.search.ranking.confidence import (
    FIRST,
    Assessment,
    Signals,
    contains_all_words,
    default_model,
    measure_signals,
    overall_confidence,
)
from discovery_engine.search.ranking.inverse_document_frequency import default_idf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from discovery_engine.search.index.index import Index
    from discovery_engine.search.index.tags import TagTable
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.query.name_match import NameMatch
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.search.vectors import Similarities

_TIE = 0.03  # of the best relevance; of tools that close, each third pair is in the wrong order


class Assessor:
    """`analyze` gives the terms of a text."""

    def __init__(
        self,
        index: Index,
        tags: TagTable,
        lexicon: Lexicon,
        analyze: Callable[[str], QueryTerms],
    ) -> None:
        self._index = index
        self._tags = tags
        self._lexicon = lexicon
        self._analyze = analyze

    def assess(
        self, query: AnalyzedQuery, hits: Sequence[Hit], similarities: Similarities | None = None
    ) -> Assessment:
        """How good `hits` of `query` are: `FIRST` at least, if there are so many."""
        terms = query.terms
        if not hits:
            return Assessment(0.0, 0, terms.unknown)
        signals = self.signals(query, hits, default_idf(), similarities)
        model = default_model(with_vectors=signals[0].similarity is not None)
        kinds = [self.name_match(query, hit).kind for hit in hits]
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
        first = hits[:FIRST]
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
            else [self._analyze(passage) for passage in passages]
        )

    def _impacts(self, hit: Hit, terms: QueryTerms) -> dict[str, int]:
        """The impacts of a query's terms on a tool."""
        doc_id = self._index.doc_id(hit.entry.tool)
        return self._index.impacts(doc_id, terms.weights) if doc_id else {}

    def name_match(self, query: AnalyzedQuery, hit: Hit) -> NameMatch:
        """How the name of a hit fits `query`."""
        # To look up a tool takes 5 us, for each hit, and few queries are names.
        return query.name_match(self._index.doc_id(hit.entry.tool) if query.name_matches else None)
