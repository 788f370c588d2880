"""A query with all that a search needs, analyzed once."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from discovery_engine.search.index.index import DocId
from discovery_engine.search.operations.request_reading import RequestReading
from discovery_engine.search.query.analyzer import QueryTerms
from discovery_engine.search.query.name_match import NameMatch, NameMatchKind
from discovery_engine.search.query.retrieval import Retrieval

_NO_MATCH = NameMatch(NameMatchKind.NONE, 0.0)


class AnalyzedQuery(Struct, frozen=True):
    """Made by `Searcher.analyze`, and valid for that searcher alone."""

    text: str
    terms: QueryTerms
    name_matches: Mapping[DocId, NameMatch]
    """The tools that the query names, and how."""
    reading: RequestReading
    """The operations that the query asks for, and its arguments."""
    retrieval: Retrieval
    """Finds its candidates."""

    def name_match(self, doc_id: DocId | None) -> NameMatch:
        """How the query names a tool, if at all."""
        return self.name_matches.get(doc_id, _NO_MATCH) if doc_id else _NO_MATCH
