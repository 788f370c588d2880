"""Retrieval: the few candidates of many tools that are worth scoring in full, by words and by name.

The heaviest terms, which are the rarest, are looked up first, until enough tools are found and
enough postings were read. The candidates depend on the catalog and the query alone, never on how
the tools are spread over levels.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from enum import IntEnum
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.index.postings import IDS, names_with_part
from discovery_engine.search.query.analyzer import QueryTerms
from discovery_engine.search.text.tokenizer import (
    max_edits,
    normalize_name,
    query_spellings,
    similar_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from discovery_engine.search.index.index import Level, Subset
    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.tools.model import Tool

_LONGEST_NAME = 80  # characters
_MOST_WORDS = 6  # of a query that may be a name with a typo


class NameMatchKind(IntEnum):
    """The way a query names a tool; the closer ranks first, whatever the scores."""

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
    """Return the match of every tool that a query names; `terms` are those of the query."""
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


_MOST_POSTINGS = 8_000  # that are read for one query,
_FEW_POSTINGS = 500  # unless fewer than these were read before
# Tools that are remembered with their scores; a usual search needs no more.
_SCORED_TOOLS_CACHED = 100
_MOST_TIES = 4  # times as many; with more that equal the last, they are not remembered
_NARROW = 0.25  # of all tools; among more it is cheaper to find the nearest of all
_MARGIN = 1.3  # times as many of the nearest as hold enough of a subset on average
_TINY = 4  # times as many tools as are worth scoring: it is cheaper to score them all
_ENOUGH = 2  # times as many tools as are worth scoring, to find before lighter terms are left out
_SAMPLED = 8  # times as many sums as are wanted: their best are a lower bound of the best of all
_SKIPPED = 0.4  # what a posting of another tool costs, of one that is used
_DENSE = (
    1.5  # tools a posting that is read; of fewer, a list of all sums takes a third less than a map
)

Sums: TypeAlias = "dict[int, float] | list[float]"
"""For each tool of a level the weighted impacts of the terms, added up in the order of the terms;
0, or no entry, for one that holds none of them."""


Place: TypeAlias = tuple[float, int, int]
"""A sum, and the level and the number of the tool; a `DocId` is made of few of many."""


class Candidates(Struct, frozen=True):
    scored: list[tuple[float, DocId]]
    """Each with the sum of what the terms that were looked up are worth for it."""
    are_by_all_terms: bool
    """True if all terms of the query were looked up, so that the sums are final."""

    @property
    def doc_ids(self) -> list[DocId]:
        return [doc_id for _, doc_id in self.scored]


class Retrieval:
    """The retrieval of one query, which may be asked for among several kinds of tools."""

    def __init__(self, index: Index, query: QueryTerms) -> None:
        self._index = index
        self._query = query
        self._known: _Nearest | None = None

    def find_candidates(
        self, *, least: int, allowed: Callable[[DocId], bool], within: Subset | None = None
    ) -> Candidates:
        """The allowed tools most likely to fit, some more than `least` if there are as many.

        Of a small subset these are all of its tools, also those that hold no term of the query.

        Args:
            least: How many are worth scoring.
            allowed: Whether a tool may be chosen.
            within: Has all that are allowed: no others are looked at if they are few.
        """
        looked_at = least
        if within is not None:
            if within.size <= _TINY * least:
                everything = [(0.0, doc_id) for doc_id in filter(allowed, within)]
                return Candidates(everything, are_by_all_terms=False)
            share = within.size / self._index.size
            if share < _NARROW:
                return self._best_within(within, least, allowed)
            looked_at = int(_MARGIN * least / share)
        nearest = self._nearest(looked_at)
        chosen = _first_allowed(nearest.best(looked_at), least, allowed)
        if nearest.are_all(looked_at) or len(chosen) * 2 >= least:
            return Candidates(chosen, nearest.is_by_all_terms)
        if within is not None:
            return self._best_within(within, least, allowed)
        weights = self._query.weights
        sums = [_sums(level, weights) for level in self._index.levels]
        return Candidates(_best_allowed(sums, least, allowed), are_by_all_terms=True)

    def among(self, doc_ids: list[DocId], most: int) -> list[DocId]:  # noqa: ARG002 - all are at hand
        """Return the tools of `doc_ids` that are worth scoring, to find the best `most`."""
        return doc_ids

    def _best_within(
        self, within: Subset, least: int, allowed: Callable[[DocId], bool]
    ) -> Candidates:
        """The best of a subset, by the heaviest terms."""
        sums: list[dict[int, float]] = [{} for _ in within.levels]
        levels = [
            (level_sums, level.postings.lists, flags.__getitem__)
            for level_sums, level, flags in zip(
                sums, self._index.levels, within.levels, strict=True
            )
        ]
        cost, are_all = 0.0, True
        for term, weight in self._query.weights.items():
            cost += _SKIPPED * self._index.document_frequency(term)
            if cost > _MOST_POSTINGS and sum(map(len, sums)) >= _ENOUGH * least:
                are_all = False
                break
            for level_sums, lists, is_held in levels:
                if postings := lists.get(term):
                    docs = array(IDS, postings[0])
                    pairs = compress(zip(docs, postings[1], strict=True), map(is_held, docs))
                    _add(level_sums, weight, pairs)
        return Candidates(_best_allowed(sums, least, allowed), are_all)

    def _nearest(self, least: int) -> _Nearest:
        memo = self._known
        if memo and memo.least >= least:
            return memo
        terms = heaviest_terms(self._index, self._query)
        sums = [_sums(level, terms) for level in self._index.levels]
        most = max(least, _SCORED_TOOLS_CACHED)
        nearest = _Nearest(
            most,
            _best(sums, most),
            size=sum(map(_size, sums)),
            is_by_all_terms=len(terms) == len(self._query.weights),
        )
        if len(nearest.scored) <= _MOST_TIES * most:
            self._known = nearest
        return nearest


class _Nearest(Struct, frozen=True):
    """The tools with the highest sums by the heaviest terms, whatever is allowed."""

    least: int
    """Number of tools up to which the best are known."""
    scored: list[Place]
    """The best first: at least so many, if there are, and all that equal the last of them."""
    size: int
    """The number of tools that hold any of the terms."""
    is_by_all_terms: bool

    def best(self, least: int) -> list[Place]:
        """The `least` best and all that equal the last of them."""
        bar = self.scored[least - 1][0] if self.size > least else 0.0
        return [place for place in self.scored if place[0] >= bar]

    def are_all(self, least: int) -> bool:
        """Return whether no tool but the `least` best holds a term of the query."""
        return self.is_by_all_terms and self.size <= least


def heaviest_terms(index: Index, query: QueryTerms) -> dict[str, float]:
    """The terms to look up first: the rarest, as long as not too many tools hold them."""
    terms: dict[str, float] = {}
    read = 0
    for term, weight in query.weights.items():
        count = index.document_frequency(term)
        if read >= _FEW_POSTINGS and read + count > _MOST_POSTINGS:
            break
        terms[term] = weight
        read += count
    return terms


def _sums(level: Level, terms: Mapping[str, float]) -> Sums:
    lists = level.postings.lists
    weighted_lists = [(weight, held) for term, weight in terms.items() if (held := lists.get(term))]
    sums: Sums
    if level.postings.size <= _DENSE * sum(len(impacts) for _, (_, impacts) in weighted_lists):
        sums = [0.0] * level.postings.size
        for weight, (docs, impacts) in weighted_lists:
            for doc, impact in zip(array(IDS, docs), impacts, strict=True):
                sums[doc] += weight * impact
        for doc in level.deleted:
            sums[doc] = 0.0
        return sums
    sums = {}
    for weight, (docs, impacts) in weighted_lists:
        _add(sums, weight, zip(array(IDS, docs), impacts, strict=True))
    for doc in level.deleted:
        sums.pop(doc, None)
    return sums


def _add(sums: dict[int, float], weight: float, postings: Iterable[tuple[int, int]]) -> None:
    get = sums.get
    for doc, impact in postings:
        sums[doc] = get(doc, 0.0) + weight * impact


def _size(sums: Sums) -> int:
    """The number of tools that hold a term."""
    return len(sums) - sums.count(0.0) if isinstance(sums, list) else len(sums)


def _best_allowed(
    sums: Sequence[Sums], least: int, allowed: Callable[[DocId], bool]
) -> list[tuple[float, DocId]]:
    """Return the `_best` of the allowed tools; to check every tool would take most of the time."""
    for most in (2 * least, sys.maxsize):  # nearly all are allowed, as a rule
        chosen = _first_allowed(_best(sums, most), least, allowed)
        if len(chosen) >= least:
            break
    return chosen


def _first_allowed(
    scored: list[Place], least: int, allowed: Callable[[DocId], bool]
) -> list[tuple[float, DocId]]:
    chosen: list[tuple[float, DocId]] = []
    bar = 0.0
    for score, level, doc in scored:
        if score < bar:
            break
        doc_id = DocId(level, doc)
        if allowed(doc_id):
            chosen.append((score, doc_id))
            if len(chosen) == least:
                bar = score
    return chosen


def _best(found: Sequence[Sums], least: int) -> list[Place]:
    """The `least` best and all that equal the last of them, the best first."""
    bar = sys.float_info.min  # what holds no term is none of them
    if is_cut := sum(map(_size, found)) > least:
        values = (sums if isinstance(sums, list) else sums.values() for sums in found)
        some = [*islice(chain.from_iterable(values), _SAMPLED * least)]
        bar = max(bar, sorted(some)[-least])
    near = [
        (score, level, doc)
        for level, sums in enumerate(found)
        for doc, score in (enumerate(sums) if isinstance(sums, list) else sums.items())
        if score >= bar
    ]
    near.sort(reverse=True)
    if is_cut:
        last = near[least - 1][0]
        return [place for place in near if place[0] >= last]
    return near


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
        """The match of the query with a tool's name; its kind is `NONE` if they differ."""
        return self.name_matches.get(doc_id, _NO_MATCH) if doc_id else _NO_MATCH
