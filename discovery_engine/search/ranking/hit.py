"""A hit: a tool that a search found, and its relevance."""

from __future__ import annotations

from msgspec import Struct

from discovery_engine.catalog import Entry


class ScoreParts(Struct, frozen=True):
    """What each part adds to the relevance; all but `meaning` add up to it."""

    exact: float
    partial: float
    tag: float
    meaning: float = 0.0
    """What of `partial` comes from vectors; the rest comes from words."""
    usage: float = 0.0
    """What former uses add; next to nothing."""


class Hit(Struct, frozen=True):
    """A tool that a search found, with its relevance."""

    entry: Entry
    relevance: float
    """From 0 to 1: how well it fits, not how probable it is."""
    parts: ScoreParts

    @classmethod
    def from_parts(
        cls,
        entry: Entry,
        parts: tuple[float, float, float],
        meaning_share: float,
        by_usage: float,
    ) -> Hit:
        """The hit of a tool; `meaning_share` is the share of `partial` that comes from vectors."""
        exact, partial, tag = parts
        score_parts = ScoreParts(exact, partial, tag, partial * meaning_share, by_usage)
        return cls(entry, sum(parts) + by_usage, score_parts)
