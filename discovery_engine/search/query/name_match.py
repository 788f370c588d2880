"""The tools whose name a query is: in any spelling, or with a typo or two."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.index.names import names_with_part
from discovery_engine.search.text.spelling import (
    max_edits,
    normalize_name,
    query_spellings,
    similar_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.tools.model import Tool

_LONGEST_NAME = 80  # characters
_MOST_WORDS = 6  # of a query that may be a name with a typo


class NameMatchKind(IntEnum):
    """How a query names a tool; the closer ranks first, whatever the scores."""

    NONE = 0
    TYPO = 1
    SPELLING = 2
    """Another spelling of the name."""
    EXACT = 3


class NameMatch(NamedTuple):
    kind: NameMatchKind
    similarity: float
    """The share of the characters that are right."""


def match_names(index: Index, text: str, terms: QueryTerms) -> dict[DocId, NameMatch]:
    """Every tool that a query names, and how; `terms` are those of the query."""
    matches = dict(_match_spellings(index, text))
    if matches or not _may_be_typo(text, terms):
        return matches
    return _match_typos(index, text)


def is_tool_name(index: Index, text: str) -> bool:
    """Return whether a query is the name of a tool, in any spelling."""
    return any(True for _ in _match_spellings(index, text))


def _match_spellings(index: Index, text: str) -> Iterator[tuple[DocId, NameMatch]]:
    literally = text.strip()
    for spelling in query_spellings(text):
        for doc_id in _doc_ids(index, spelling):
            is_literal = literally in _literal_names(index.entry(doc_id).tool)
            kind = NameMatchKind.EXACT if is_literal else NameMatchKind.SPELLING
            yield doc_id, NameMatch(kind, 1.0)


def _literal_names(tool: Tool) -> tuple[str, ...]:
    server, name = tool.server, tool.name
    return name, f"{server}:{name}", f"{server}__{name}", f"mcp__{server}__{name}"


def _may_be_typo(text: str, terms: QueryTerms) -> bool:
    count = len(text.split())
    if len(text) > _LONGEST_NAME or count > _MOST_WORDS:
        return False
    return count == 1 or bool(terms.unknown)


def _match_typos(index: Index, text: str) -> dict[DocId, NameMatch]:
    """The tools of the closest name, if no other name is as close."""
    close = [
        (distance / len(spelling), doc_id)
        for spelling in query_spellings(text)
        for name, distance in _similar_names(index, spelling)
        for doc_id in _doc_ids(index, name)
    ]
    best = min((distance for distance, _ in close), default=0.0)
    doc_ids = [doc_id for distance, doc_id in close if distance == best]
    names = {normalize_name(index.entry(doc_id).tool.name) for doc_id in doc_ids}
    if len(names) != 1:
        return {}
    return dict.fromkeys(doc_ids, NameMatch(NameMatchKind.TYPO, 1 - best))


def _similar_names(index: Index, spelling: str) -> Iterator[tuple[str, int]]:
    most = max_edits(len(spelling))
    for level in index.levels:
        for length in range(len(spelling) - most, len(spelling) + most + 1):
            if names := level.postings.names.get(length):
                candidates = names_with_part(names, length, spelling, most)
                yield from similar_names(spelling, candidates) if candidates else ()


def _doc_ids(index: Index, spelling: str) -> Iterable[DocId]:
    return (
        DocId(number, doc)
        for number, level in enumerate(index.levels)
        for doc in level.postings.named(spelling)
        if doc not in level.deleted
    )
