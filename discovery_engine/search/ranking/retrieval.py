"""Which tools are worth scoring: the few of many that hold the terms that matter.

The heaviest terms, which are the rarest, are looked up first, until enough tools are at hand
and enough work was done. What is chosen depends on the catalog and the question alone, never on
how the index is cut into blocks.
"""

from __future__ import annotations

import heapq
from array import array
from itertools import chain
from typing import TYPE_CHECKING

from discovery_engine.search.index.index import Place
from discovery_engine.search.index.postings import IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from discovery_engine.search.index.index import Index
    from discovery_engine.search.index.postings import Layer
    from discovery_engine.search.query.analyzer import Question

_EFFORT = 8_000  # postings looked at for one question,
_ENOUGH = 500  # unless fewer than these were


def candidates(
    index: Index, question: Question, *, least: int, allowed: Callable[[Place], bool]
) -> list[Place]:
    """The allowed tools most likely to fit, some more than `least` if there are as many."""
    terms = _heaviest(index, question)
    found = _gathered(index, terms)
    chosen = [place for place in _best(found, least) if allowed(place)]
    complete = len(terms) == len(question.weights) and sum(map(len, found)) <= least
    if complete or len(chosen) * 2 >= least:
        return chosen
    everything = _gathered(index, question.weights)
    return _best([_allowed(n, layer, allowed) for n, layer in enumerate(everything)], least)


def _heaviest(index: Index, question: Question) -> dict[str, float]:
    terms: dict[str, float] = {}
    effort = 0
    for term, weight in question.weights.items():
        count = index.count(term)
        if effort >= _ENOUGH and effort + count > _EFFORT:
            break
        terms[term] = weight
        effort += count
    return terms


def _gathered(index: Index, terms: Mapping[str, float]) -> list[dict[int, float]]:
    return [_scored(layer, terms) for layer in index.layers]


def _scored(layer: Layer, terms: Mapping[str, float]) -> dict[int, float]:
    scores: dict[int, float] = {}
    get = scores.get
    for term, weight in terms.items():
        found = layer.block.postings.get(term)
        if found is None:
            continue
        docs, impacts = found
        for doc, impact in zip(array(IDS, docs), impacts, strict=True):
            scores[doc] = get(doc, 0.0) + weight * impact
    for doc in layer.struck:
        scores.pop(doc, None)
    return scores


def _allowed(
    number: int, scores: Mapping[int, float], allowed: Callable[[Place], bool]
) -> dict[int, float]:
    return {doc: score for doc, score in scores.items() if allowed(Place(number, doc))}


def _best(found: list[dict[int, float]], least: int) -> list[Place]:
    """The `least` best and all that equal the last of them."""
    if sum(map(len, found)) > least:
        all_scores = chain.from_iterable(scores.values() for scores in found)
        bar = heapq.nlargest(least, all_scores)[-1]
    else:
        bar = 0.0
    return [
        Place(number, doc)
        for number, scores in enumerate(found)
        for doc, score in scores.items()
        if score >= bar
    ]
