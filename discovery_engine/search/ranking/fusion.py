"""Fusion of the score by words with the similarity of vectors.

The fused score is a weighted mean. The weight of the vectors is set for each query: by the best
score that words reach in it. Within a query, the fused score rises strictly with either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

# `scripts/fit_ranking.py --embedder` shows what each is worth.
_WEIGHT = 1.0  # of the vectors of a sentence model; that of words is 1
# Of sums of word vectors. At 0.7 these find 1 % more everyday requests, and two of 13 sets lose
# 0.015 of NDCG.
_STATIC_WEIGHT = 0.4
_STEEPNESS = 1.8  # of the fall from the most similar tool to one of mean similarity
_LEAST_BEST = 0.1  # taken for the best score by words where it is lower
_LEAST_SPREAD = 0.15  # between the best and the mean similarity, where all are much alike


class Contributions(NamedTuple):
    """The parts that add up to the score."""

    words: float
    meaning: float


class Fusion(Struct, frozen=True):
    """The parameters for one query."""

    best_words: float
    """The best score by words of any tool, from 0 to 1."""
    best_similarity: float
    """The greatest cosine of any tool."""
    mean_similarity: float
    """The mean of all cosines."""
    is_static: bool = False
    """True if the vectors are sums of word vectors."""

    def fuse(self, words: float, similarity: float | None) -> Contributions:
        """Both parts of a score from 0 to 1; without a similarity it is taken from the words."""
        best = max(self.best_words, _LEAST_BEST)
        relative = min(words / best, 1.0) if similarity is None else self._relative(similarity)
        weight = (_STATIC_WEIGHT if self.is_static else _WEIGHT) * best
        meaning = weight * math.exp(_STEEPNESS * (relative - 1))
        return Contributions(words / (1 + weight), meaning / (1 + weight))

    def _relative(self, similarity: float) -> float:
        """1 for the most similar tool, 0 for one of mean similarity, less for those below."""
        spread = max(self.best_similarity - self.mean_similarity, _LEAST_SPREAD)
        return 1 - (self.best_similarity - similarity) / spread
