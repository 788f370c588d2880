"""A hit: a tool that a search found, and its relevance."""

from __future__ import annotations

from msgspec import Struct

from discovery_engine.catalog import Entry


class ScoreParts(Struct, frozen=True):
    """The parts of the relevance; `exact`, `partial`, `tag` and `usage` add up to it."""

    exact: float
    partial: float
    tag: float
    meaning: float = 0.0
    """The part of `partial` that comes from vectors; the rest comes from words."""
    agreement: float = 0.0
    """The change of `partial` because the tool does what is asked for, or does not."""
    usage: float = 0.0
    """The part that former uses add; next to nothing."""


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
        agreement_share: float,
        by_usage: float,
    ) -> Hit:
        """The hit of a tool; the shares are those of `partial` by vectors and by agreement."""
        exact, partial, tag = parts
        score_parts = ScoreParts(
            exact,
            partial,
            tag,
            meaning=partial * meaning_share,
            agreement=partial * agreement_share,
            usage=by_usage,
        )
        return cls(entry, sum(parts) + by_usage, score_parts)
