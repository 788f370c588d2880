"""How well a tool fits a question: a pure function of the two and of how rare the terms are.

The score is the share of what could be reached, from 0 to just under 1. A tool that does all of
one clause of a long request scores above one that has a little of each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from math import fsum
from typing import TYPE_CHECKING

from discovery_engine.search.index.documents import FULL
from discovery_engine.search.index.postings import IDS, Postings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from discovery_engine.search.index.postings import Block
    from discovery_engine.search.query.analyzer import Question

_OF_CLAUSE = 0.3  # of the score comes from the clause that fits best
_SHORT_CLAUSE = 0.7  # how much less a clause counts that is a small share of the request


def scores(block: Block, docs: Sequence[int], question: Question) -> list[float]:
    """The score of each of `docs`, which ascend."""
    whole = [0.0] * len(docs)
    parts = [[0.0] * len(docs) for _ in question.clauses]
    for term, weight in question.weights.items():
        found = block.postings.get(term)
        if found is None:
            continue
        within = [p for c, p in zip(question.clauses, parts, strict=True) if term in c]
        for i, impact in impacts_of(found, docs):
            gain = weight * impact
            whole[i] += gain
            for part in within:
                part[i] += gain
    known = sum(question.weights.values())
    if not known:
        return whole
    if parts:
        best = _best_clause(parts, question, known)
        whole = [(1 - _OF_CLAUSE) * w + _OF_CLAUSE * b for w, b in zip(whole, best, strict=True)]
    reachable = (known + question.unmet) * (FULL + 1)
    return [score / reachable for score in whole]


def contributions(impacts: Mapping[str, int], question: Question) -> dict[str, float]:
    """What each term adds to the score of a tool that holds terms with these impacts."""
    gains = {term: question.weights[term] * impact for term, impact in impacts.items()}
    known = sum(question.weights.values())
    clause, lift = _best_fitting(gains, question, known)
    rest = 1 - _OF_CLAUSE if question.clauses else 1.0
    reachable = (known + question.unmet) * (FULL + 1)
    return {
        term: gain * (rest + (_OF_CLAUSE * lift if term in clause else 0.0)) / reachable
        for term, gain in gains.items()
    }


def impacts_of(postings: Postings, docs: Sequence[int]) -> list[tuple[int, int]]:
    """The impact on each of `docs` that holds the term, with its position in `docs`."""
    held, impacts = array(IDS, postings[0]), postings[1]
    found, low, end = [], 0, len(held)
    for i, doc in enumerate(docs):
        low = bisect_left(held, doc, low)
        if low == end:
            break
        if held[low] == doc:
            found.append((i, impacts[low]))
    return found


def _best_clause(
    parts: Sequence[Sequence[float]], question: Question, known: float
) -> Sequence[float]:
    """For each tool the score of the clause that it fits best, with short clauses lifted."""
    best: Sequence[float] = [0.0] * len(parts[0])
    for clause, part in zip(question.clauses, parts, strict=True):
        if lift := _lift(clause, question, known):
            best = [max(a, b * lift) for a, b in zip(best, part, strict=True)]
    return best


def _best_fitting(
    gains: Mapping[str, float], question: Question, known: float
) -> tuple[frozenset[str], float]:
    """The clause that one tool fits best, and how much it is lifted."""
    lifted = ((clause, _lift(clause, question, known)) for clause in question.clauses)

    def fit(one: tuple[frozenset[str], float]) -> float:
        clause, lift = one
        return lift * sum(gain for term, gain in gains.items() if term in clause)

    return max(lifted, key=fit, default=(frozenset(), 0.0))


def _lift(clause: frozenset[str], question: Question, known: float) -> float:
    """What a clause counts for by its share of the request; 0 if nothing of it is known."""
    share = fsum(question.weights[term] for term in clause) / known
    return share ** (_SHORT_CLAUSE - 1) if share else 0.0
