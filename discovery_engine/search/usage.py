"""Counts of calls of tools that a search had found; they decay with time.

Nothing is counted unless the owner turns it on with `search.learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from discovery_engine.tools.model import ToolKey

_HALF_LIFE = 30 * 86_400.0  # seconds after which a use counts half
_SATURATION = 4.0  # uses that count half of what any number of them can count
_LINK_TIMEOUT = 600.0  # seconds after which a use is no longer put down to a search
_MOST_FOUND = 1_000  # tools; the oldest are forgotten


class UseCount(Struct, frozen=True):
    """The number of uses of a tool, decayed to a moment."""

    count: float
    at: float
    """Unix time in seconds."""

    def decayed(self, now: float) -> float:
        """The count at `now`; a clock that went back changes nothing."""
        return self.count * float(0.5 ** (max(0.0, now - self.at) / _HALF_LIFE))

    def incremented(self, now: float) -> UseCount:
        """Return the count with one more use."""
        return UseCount(self.decayed(now) + 1, max(now, self.at))


def usage_shares(uses: Mapping[ToolKey, UseCount], now: float) -> dict[ToolKey, float]:
    """The use of each tool, from 0 to just under 1."""
    counts = {key: use.decayed(now) for key, use in uses.items()}
    return {key: count / (count + _SATURATION) for key, count in counts.items()}


class RecentFinds:
    """The tools that searches found of late. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._found: dict[ToolKey, float] = {}

    def add(self, keys: Iterable[ToolKey], now: float) -> None:
        for key in keys:
            self._found.pop(key, None)
            self._found[key] = now
        for key in list(self._found)[:-_MOST_FOUND]:
            del self._found[key]

    def consume(self, key: ToolKey, now: float) -> bool:
        """Return whether a tool was found a short while ago; each find counts for one use."""
        moment = self._found.pop(key, None)
        return moment is not None and now - moment <= _LINK_TIMEOUT
