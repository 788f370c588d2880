"""When a delivery is tried again, and for how long."""

from __future__ import annotations

from collections.abc import Callable

from discovery_engine._util.retry_after import backoff

FIRST_BACKOFF = 5.0  # seconds
LONGEST_BACKOFF = 6 * 3600.0
_FACTOR = 4.0
GIVE_UP_AFTER = 3 * 86_400.0  # seconds since it was stored: a long weekend without a receiver
MOST_STORED = 10_000
"""Deliveries of one webhook, pending and dead; then the oldest are dropped."""


def backoff_after(
    attempts: int, waiting: float, random: Callable[[], float], *, asked: float | None = None
) -> float | None:
    """Seconds until the next attempt, after this many failed; None if there is to be none.

    Args:
        attempts: Those that failed.
        waiting: Seconds since the event was stored.
        random: Gives numbers from 0 to 1. Half of the pause is random, so that what failed
            together is not sent together.
        asked: Seconds that the receiver asks to be left alone; at most `LONGEST_BACKOFF` of them
            are granted.
    """
    if waiting >= GIVE_UP_AFTER:
        return None
    longest = backoff(max(attempts, 1), FIRST_BACKOFF, LONGEST_BACKOFF, factor=_FACTOR)
    pause = longest * (0.5 + 0.5 * random())
    return max(pause, min(asked or 0.0, LONGEST_BACKOFF))
