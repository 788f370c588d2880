"""How well a tool fits a question: a pure function of the two and of how rare the terms are.

The score is the share of what could be reached, from 0 to just under 1. A tool that does all of
one clause of a long request scores above one that has a little of each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from discovery_engine.search.blocks import IDS, Postings
from discovery_engine.search.documents import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine.search.blocks import Block
    from discovery_engine.search.question import Question

_OF_CLAUSE = 0.3  # of the score comes from the clause that fits best
_SHORT_CLAUSE = 0.7  # how much less a clause counts that is a small share of the request


def scores(block: Block, docs: Sequence[int], question: Question) -> list[float]:
    """The score of each of `docs`, which ascend."""
    clauses = [clause for clause in question.clauses if clause]
    whole = [0.0] * len(docs)
    parts = [[0.0] * len(docs) for _ in clauses]
    for term, weight in question.weights.items():
        found = block.postings.get(term)
        if found is None:
            continue
        within = [part for clause, part in zip(clauses, parts, strict=True) if term in clause]
        for i, impact in impacts_of(found, docs):
            gain = weight * impact
            whole[i] += gain
            for part in within:
                part[i] += gain
    known = question.known
    best = _best_clause(parts, [sum(clause.values()) / known for clause in clauses], len(docs))
    share = 1 / ((known + question.unknown) * (FULL + 1)) if known else 0.0
    if not clauses:
        return [score * share for score in whole]
    return [
        ((1 - _OF_CLAUSE) * score + _OF_CLAUSE * clause) * share
        for score, clause in zip(whole, best, strict=True)
    ]


def impacts_of(postings: Postings, docs: Sequence[int]) -> list[tuple[int, int]]:
    """The impact on each of `docs` that holds the term, with its position in `docs`."""
    held, impacts = array(IDS, postings.docs), postings.impacts
    found, low, end = [], 0, len(held)
    for i, doc in enumerate(docs):
        low = bisect_left(held, doc, low)
        if low == end:
            break
        if held[low] == doc:
            found.append((i, impacts[low]))
    return found


def _best_clause(
    parts: Sequence[Sequence[float]], shares: Sequence[float], count: int
) -> list[float]:
    best = [0.0] * count
    for part, share in zip(parts, shares, strict=True):
        lift = share ** (_SHORT_CLAUSE - 1)
        best = [max(a, b * lift) for a, b in zip(best, part, strict=True)]
    return best
