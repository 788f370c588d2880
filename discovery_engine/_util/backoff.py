"""Exponential backoff."""

from __future__ import annotations

_MOST_STEPS = 64  # of any factor, far beyond every limit


def backoff(failures: int, first: float, longest: float, *, factor: float = 2.0) -> float:
    """Seconds to wait after so many failures in a row: `first` after one; 0 after none."""
    if failures < 1:
        return 0.0
    return min(longest, first * factor ** min(failures - 1, _MOST_STEPS))
