"""A delivery: one event on its way to one webhook, and what is known of a webhook.

    pending   sent when it is due, and again until it is accepted
    dead      refused for too long, or its webhook is gone: nothing is sent until its owner says so

Times are Unix times in seconds by the clock of the registry.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from discovery_engine._util.retry_after import backoff


class Delivery(Struct, frozen=True):
    """A delivery that one process was given to send."""

    id: int
    webhook: str
    event_id: str
    """Stays the same for every attempt, and for every webhook."""
    event_type: str
    body: str
    """JSON, as it is signed and sent."""
    attempts: int
    """Since it was stored or retried by hand, this one included."""
    fence: int
    """The number of claims so far: a result counts only if no other process has claimed since."""
    waiting: float
    """Seconds since it was stored, or retried by hand."""


class WebhookState(Struct, frozen=True):
    """A webhook of a configuration, as the registry has it."""

    name: str
    pending: int = 0
    dead: int = 0
    delivered: int = 0
    """Events that were accepted, ever."""
    dropped: int = 0
    """Events that were stored and dropped, because too many waited."""
    oldest_at: float | None = None
    """When the oldest pending event was stored; None if none is pending."""
    delivered_at: float | None = None
    """When an event was last accepted."""
    failed_at: float | None = None
    """When an attempt last failed."""
    failure: str = ""
    """Why; empty if the last attempt was accepted."""
    disabled_at: float | None = None
    """When its receiver said that it is gone; None if it did not. Nothing is stored since."""


class ServerHealth(Struct, frozen=True):
    """The health of a server as it was last sent to webhooks."""

    failing_at: float | None = None
    """Since when they know it as failing; None if they do not."""
    well_at: float | None = None
    """When they were last sent that it is well again."""


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
