"""Retrieval: the few candidates of many tools that are worth scoring in full.

The heaviest terms, which are the rarest, are looked up first, until enough tools are found and
enough postings were read. The candidates depend on the catalog and the query alone, never on how
the tools are spread over levels.
"""

from __future__ import annotations

import heapq
from array import array
from itertools import chain
from typing import TYPE_CHECKING

from discovery_engine.search.index.index import DocId
from discovery_engine.search.index.postings import IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from discovery_engine.search.index.index import Index
    from discovery_engine.search.index.levels import Level
    from discovery_engine.search.query.analyzer import QueryTerms

_MOST_POSTINGS = 8_000  # that are read for one query,
_FEW_POSTINGS = 500  # unless fewer than these were read before


def find_candidates(
    index: Index, query: QueryTerms, *, least: int, allowed: Callable[[DocId], bool]
) -> list[DocId]:
    """The allowed tools most likely to fit, some more than `least` if there are as many."""
    terms = _heaviest(index, query)
    found = _score_levels(index, terms)
    chosen = [doc_id for doc_id in _best(found, least) if allowed(doc_id)]
    complete = len(terms) == len(query.weights) and sum(map(len, found)) <= least
    if complete or len(chosen) * 2 >= least:
        return chosen
    everything = _score_levels(index, query.weights)
    return _best([_allowed(n, level, allowed) for n, level in enumerate(everything)], least)


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


def _score_levels(index: Index, terms: Mapping[str, float]) -> list[dict[int, float]]:
    return [_score_level(level, terms) for level in index.levels]


def _score_level(level: Level, terms: Mapping[str, float]) -> dict[int, float]:
    scores: dict[int, float] = {}
    get = scores.get
    for term, weight in terms.items():
        found = level.postings.lists.get(term)
        if found is None:
            continue
        docs, impacts = found
        for doc, impact in zip(array(IDS, docs), impacts, strict=True):
            scores[doc] = get(doc, 0.0) + weight * impact
    for doc in level.deleted:
        scores.pop(doc, None)
    return scores


def _allowed(
    number: int, scores: Mapping[int, float], allowed: Callable[[DocId], bool]
) -> dict[int, float]:
    return {doc: score for doc, score in scores.items() if allowed(DocId(number, doc))}


def _best(found: list[dict[int, float]], least: int) -> list[DocId]:
    """The `least` best and all that equal the last of them."""
    if sum(map(len, found)) > least:
        all_scores = chain.from_iterable(scores.values() for scores in found)
        bar = heapq.nlargest(least, all_scores)[-1]
    else:
        bar = 0.0
    return [
        DocId(number, doc)
        for number, scores in enumerate(found)
        for doc, score in scores.items()
        if score >= bar
    ]
