"""How good one answer is, from the ranks of the right tools in it; 1 is the first rank.

The definitions are the usual ones, with every right tool equally right. Each measure is from 0 to
1, and moving a right tool up never lowers any of them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import TypeVar

DEPTH = 10
"""Ranks that count; what stands below has not been found."""

T = TypeVar("T")

Ranks = Sequence[int]


def ranks_of(found: Iterable[T], right: Container[T]) -> tuple[int, ...]:
    """The ranks of the right ones among the first `DEPTH`, ascending."""
    return tuple(rank for rank, hit in enumerate(found, 1) if hit in right and rank <= DEPTH)


def recall(ranks: Ranks, right: int, depth: int) -> float:
    """The share of the `right` tools that stand among the first `depth`."""
    return sum(rank <= depth for rank in ranks) / right


def reciprocal_rank(ranks: Ranks) -> float:
    """1 for a right tool at the top, 1/2 if the first one is second, 0 if there is none."""
    return 1 / min(ranks) if ranks else 0.0


def ndcg(ranks: Ranks, right: int) -> float:
    """The discounted gain of the right tools, as a share of what the best order would gain."""
    best = _gain(range(1, min(right, DEPTH) + 1))
    return min(_gain(ranks) / best, 1.0)


def mean(values: Iterable[float]) -> float | None:
    """None of nothing: what was not measured is not zero."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """The least value that `share` of the values do not exceed (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else None


def _gain(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)
