"""Words and meaning made into one score.

The score is a mean of the two, weighted for each query anew: what a query's words find at best
says how far they are to be trusted, and how much meaning can add to that. Within a query it rises
strictly with either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

_WEIGHT = 0.7  # of meaning, beside words
_STEEPNESS = 1.25  # how fast meaning fades from the likest tool to the usual one
_LEAST_BEST = 0.1  # what words find at best, where they find next to nothing
_LEAST_SPREAD = 0.15  # between the likest and the usual tool, where all are much the same


class Contributions(NamedTuple):
    """What adds up to the score."""

    words: float
    meaning: float


class Fusion(Struct, frozen=True):
    """How the two are joined for one query."""

    best_words: float
    """The best score by words of any tool, from 0 to 1."""
    best_likeness: float
    """The greatest cosine of any tool."""
    usual_likeness: float
    """The mean of all cosines."""

    def __call__(self, words: float, likeness: float | None) -> Contributions:
        """Both parts of a score from 0 to 1; without a likeness the words stand for it."""
        best = max(self.best_words, _LEAST_BEST)
        nearness = min(words / best, 1.0) if likeness is None else self._nearness(likeness)
        weight = _WEIGHT * best
        meaning = weight * math.exp(_STEEPNESS * (nearness - 1))
        return Contributions(words / (1 + weight), meaning / (1 + weight))

    def _nearness(self, likeness: float) -> float:
        """1 for the likest tool, 0 for the usual one, less for those below."""
        spread = max(self.best_likeness - self.usual_likeness, _LEAST_SPREAD)
        return 1 - (self.best_likeness - likeness) / spread
