"""Retrieval: the few candidates of many tools that are worth scoring in full.

The heaviest terms, which are the rarest, are looked up first, until enough tools are found and
enough postings were read. The candidates depend on the catalog and the query alone, never on how
the tools are spread over levels.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from itertools import chain, compress
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.search.index.index import DocId
from discovery_engine.search.index.names import IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from discovery_engine.search.index.index import Index
    from discovery_engine.search.index.levels import Level
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.query.analyzer import QueryTerms

_MOST_POSTINGS = 8_000  # that are read for one query,
_FEW_POSTINGS = 500  # unless fewer than these were read before
_KEPT = 100  # tools that are remembered with their scores; a usual search needs no more
_MOST_TIES = 4  # times as many; with more that equal the last, they are not remembered
_NARROW = 0.25  # of all tools; among more it is cheaper to find the nearest of all
_MARGIN = 1.3  # times as many of the nearest as hold enough of a subset on average
_TINY = 4  # times as many tools as are worth scoring: it is cheaper to score them all
_ENOUGH = 2  # times as many tools as are worth scoring, to find before lighter terms are left out
_SKIPPED = 0.4  # what a posting of another tool costs, of one that is used


class Retrieval:
    """The retrieval of one query, which may be asked for among several kinds of tools."""

    def __init__(self, index: Index, query: QueryTerms) -> None:
        self._index = index
        self._query = query
        self._known: _Nearest | None = None

    def find_candidates(
        self, *, least: int, allowed: Callable[[DocId], bool], within: Subset | None = None
    ) -> list[DocId]:
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
                return list(filter(allowed, within))
            share = within.size / self._index.size
            if share < _NARROW:
                return _best_allowed(self._scores_within(within, _ENOUGH * least), least, allowed)
            looked_at = int(_MARGIN * least / share)
        nearest = self._nearest(looked_at)
        chosen = _first_allowed(nearest.best(looked_at), least, allowed)
        if nearest.are_all(looked_at) or len(chosen) * 2 >= least:
            return chosen
        if within is not None:
            return _best_allowed(self._scores_within(within, _ENOUGH * least), least, allowed)
        weights = self._query.weights
        everything = [_score_level(level, weights) for level in self._index.levels]
        return _best_allowed(everything, least, allowed)

    def _scores_within(self, within: Subset, enough: int) -> list[dict[int, float]]:
        """The scores of the tools of a subset, by the heaviest terms."""
        scores: list[dict[int, float]] = [{} for _ in within.levels]
        levels = [
            (found, level.postings.lists, flags.__getitem__)
            for found, level, flags in zip(scores, self._index.levels, within.levels, strict=True)
        ]
        cost = 0.0
        for term, weight in self._query.weights.items():
            cost += _SKIPPED * self._index.document_frequency(term)
            if cost > _MOST_POSTINGS and sum(map(len, scores)) >= enough:
                break
            for found, lists, is_held in levels:
                if postings := lists.get(term):
                    docs = array(IDS, postings[0])
                    pairs = compress(zip(docs, postings[1], strict=True), map(is_held, docs))
                    _add(found, weight, pairs)
        return scores

    def _nearest(self, least: int) -> _Nearest:
        known = self._known
        if known and known.least >= least:
            return known
        terms = _heaviest(self._index, self._query)
        scores = [_score_level(level, terms) for level in self._index.levels]
        most = max(least, _KEPT)
        nearest = _Nearest(
            most,
            sorted(_best(scores, most), reverse=True),
            size=sum(map(len, scores)),
            is_by_all_terms=len(terms) == len(self._query.weights),
        )
        if len(nearest.scored) <= _MOST_TIES * most:
            self._known = nearest
        return nearest


class _Nearest(Struct, frozen=True):
    """The tools with the highest scores by the heaviest terms, whatever is allowed."""

    least: int
    """Of so many, or fewer, the best are known."""
    scored: list[tuple[float, DocId]]
    """The best first: at least so many, if there are, and all that equal the last of them."""
    size: int
    """How many tools hold any of the terms."""
    is_by_all_terms: bool

    def best(self, least: int) -> list[tuple[float, DocId]]:
        """The `least` best and all that equal the last of them."""
        bar = self.scored[least - 1][0] if self.size > least else 0.0
        return [one for one in self.scored if one[0] >= bar]

    def are_all(self, least: int) -> bool:
        """Whether no tool but the `least` best holds a term of the query."""
        return self.is_by_all_terms and self.size <= least


def _heaviest(index: Index, query: QueryTerms) -> dict[str, float]:
    terms: dict[str, float] = {}
    read = 0
    for term, weight in query.weights.items():
        count = index.document_frequency(term)
        if read >= _FEW_POSTINGS and read + count > _MOST_POSTINGS:
            break
        terms[term] = weight
        read += count
    return terms


def _score_level(level: Level, terms: Mapping[str, float]) -> dict[int, float]:
    lists = level.postings.lists
    scores: dict[int, float] = {}
    for term, weight in terms.items():
        if found := lists.get(term):
            _add(scores, weight, zip(array(IDS, found[0]), found[1], strict=True))
    for doc in level.deleted:
        scores.pop(doc, None)
    return scores


def _add(scores: dict[int, float], weight: float, postings: Iterable[tuple[int, int]]) -> None:
    get = scores.get
    for doc, impact in postings:
        scores[doc] = get(doc, 0.0) + weight * impact


def _best_allowed(
    found: list[dict[int, float]], least: int, allowed: Callable[[DocId], bool]
) -> list[DocId]:
    """As `_best` of those that are allowed; to ask for all of them would take most of the time."""
    for most in (2 * least, sys.maxsize):  # nearly all are allowed, as a rule
        chosen = _first_allowed(sorted(_best(found, most), reverse=True), least, allowed)
        if len(chosen) >= least:
            break
    return chosen


def _first_allowed(
    scored: list[tuple[float, DocId]], least: int, allowed: Callable[[DocId], bool]
) -> list[DocId]:
    chosen: list[DocId] = []
    bar = 0.0
    for score, doc_id in scored:
        if score < bar:
            break
        if allowed(doc_id):
            chosen.append(doc_id)
            if len(chosen) == least:
                bar = score
    return chosen


def _best(found: list[dict[int, float]], least: int) -> list[tuple[float, DocId]]:
    """The `least` best and all that equal the last of them."""
    if sum(map(len, found)) > least:
        all_scores = chain.from_iterable(scores.values() for scores in found)
        bar = heapq.nlargest(least, all_scores)[-1]
    else:
        bar = 0.0
    return [
        (score, DocId(number, doc))
        for number, scores in enumerate(found)
        for doc, score in scores.items()
        if score >= bar
    ]
