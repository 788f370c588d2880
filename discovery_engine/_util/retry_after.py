"""Times of retries: the header Retry-After (RFC 9110, section 10.2.3), and exponential backoff."""

from __future__ import annotations

import time
from datetime import UTC

LONGEST_PAUSE = 86_400.0  # seconds; whoever asks for more is tried again after that


def retry_after(text: str, *, now: float | None = None) -> float | None:
    """Seconds that are asked for, from 0 to `LONGEST_PAUSE`; None if the text asks for nothing.

        retry_after("120")                              120.0
        retry_after("Wed, 21 Oct 2026 07:28:00 GMT")    the seconds until then

    Args:
        text: The value of the header: seconds or a date.
        now: Unix time in seconds; the clock's if None.
    """
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), LONGEST_PAUSE)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - ten modules, for a rare header

    try:
        until = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if until.tzinfo is None:  # "-0000"
        until = until.replace(tzinfo=UTC)
    waits = until.timestamp() - (time.time() if now is None else now)
    return min(max(0.0, waits), LONGEST_PAUSE)


def backoff(failures: int, first: float, longest: float, *, factor: float = 2.0) -> float:
    """Seconds to wait after so many failures in a row: `first` after one; 0 after none."""
    if failures < 1:
        return 0.0
    return min(longest, first * factor ** min(failures - 1, 64))
