"""Which tools were used after they had been found, and how often; older uses count ever less.

Nothing here is counted unless the owner asks for it with `search.learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from discovery_engine.tools.model import ToolKey

_HALF_LIFE = 30 * 86_400.0  # seconds after which a use counts half
_MANY = 4.0  # uses that count half of what any number of them can count
_SOON = 600.0  # seconds after which a use has nothing to do with a search any more
_MOST_FOUND = 1_000  # tools that are remembered as found


class Use(Struct, frozen=True):
    """How often a tool was used, as that counted at a moment."""

    count: float
    at: float
    """Unix time in seconds."""

    def counts(self, now: float) -> float:
        """What is left of it by now; a clock that went back changes nothing."""
        return self.count * float(0.5 ** (max(0.0, now - self.at) / _HALF_LIFE))

    def again(self, now: float) -> Use:
        """With one more use."""
        return Use(self.counts(now) + 1, max(now, self.at))


def shares(uses: Mapping[ToolKey, Use], now: float) -> dict[ToolKey, float]:
    """How much each tool is used, from 0 to just under 1."""
    counts = {key: use.counts(now) for key, use in uses.items()}
    return {key: count / (count + _MANY) for key, count in counts.items()}


class Finds:
    """The tools that were found of late. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._found: dict[ToolKey, float] = {}

    def add(self, keys: Iterable[ToolKey], now: float) -> None:
        for key in keys:
            self._found.pop(key, None)
            self._found[key] = now
        for key in list(self._found)[:-_MOST_FOUND]:
            del self._found[key]

    def take(self, key: ToolKey, now: float) -> bool:
        """Whether a tool was found a short while ago; one find is good for one use."""
        found = self._found.pop(key, None)
        return found is not None and now - found <= _SOON
