"""Counts and durations as people write them."""

from __future__ import annotations

import time


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count such as `1 tool`, `2 tools`; `plural` is for irregular nouns."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or f'{noun}s'}"


def date_of(at: float) -> str:
    """The day of a Unix time, for instance `2026-11-23`, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def ago(seconds: float) -> str:
    """A duration in its largest unit, for instance `3 h`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(seconds, 0))} s"
