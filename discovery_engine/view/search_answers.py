"""What a search answers: the tools that serve the query, or that none does.

The nearest tools are named even where none fits, but never among the hits: whoever takes the
first hit takes one that is thought to serve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import Entry
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.search.text.tokens import words
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.view.notices import Notice

if TYPE_CHECKING:
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import Similarities

_NEAREST = 3  # tools named where none fits
_TAIL = 0.35  # of the best relevance; next to nothing below it is ever right
_SURE, _LIKELY = 0.9, 0.5  # the least confidence for each word
_COUNTED = 50  # tools that would have been better; more are not counted


class Decision(StrEnum):
    """What a search came to."""

    MATCH = "match"
    """The first hit is thought to serve the query; others may, too."""
    AMBIGUOUS = "ambiguous"
    """Several hits fit about as well."""
    NONE = "none"
    """No tool is thought to serve the query."""


class Certainty(StrEnum):
    """The confidence of a match in a word, for readers who would misread a number."""

    SURE = "sure"
    """In at least nine of ten such answers one of the first five tools serves the query."""
    LIKELY = "likely"
    """In at least half of them."""
    UNSURE = "unsure"

    @classmethod
    def from_confidence(cls, confidence: float) -> Certainty:
        if confidence >= _SURE:
            return cls.SURE
        return cls.LIKELY if confidence >= _LIKELY else cls.UNSURE


class Alternative(Struct, frozen=True):
    """What tells a tool from those that fit as well."""

    server: ServerName
    tool: ToolName
    words: tuple[str, ...]
    """Words of its name that the others' names lack."""
    required: tuple[str, ...]
    """Required arguments that the others do not require."""


class SearchAnswer(Struct, frozen=True):
    """What one query found; `decision` says whether it is thought to serve."""

    query: str
    hits: tuple[Hit, ...]
    """Empty if nothing fits. What fits far worse than the first is left out."""
    notices: tuple[Notice, ...] = ()
    confidence: float = 0.0
    """The probability that the best tool serves the query: the first hit, or the nearest."""
    alike: int = 1
    """How many of the first hits fit about as well."""
    nearest: tuple[Hit, ...] = ()
    """If nothing fits, the tools that come nearest."""
    uncovered: tuple[str, ...] = ()
    """Words of the query that no tool mentions."""

    @property
    def decision(self) -> Decision:
        if not self.hits:
            return Decision.NONE
        return Decision.MATCH if self.alike == 1 else Decision.AMBIGUOUS

    @property
    def certainty(self) -> Certainty | None:
        """How sure it is that one of the first hits serves the query; None without hits."""
        return Certainty.from_confidence(self.confidence) if self.hits else None

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """What tells the hits apart that fit about as well; empty if the first stands out."""
        entries = [hit.entry for hit in self.hits[: self.alike]]
        return tuple(_alternative(e, entries) for e in entries) if len(entries) > 1 else ()


class QueryRunner(Struct, frozen=True):
    """One query, to be asked of all tools or of some."""

    query: AnalyzedQuery
    searcher: Searcher
    """The one that analyzed the query."""
    similarities: Similarities | None
    limit: int
    """The most hits of an answer."""
    least: float
    """The confidence below which nothing fits."""
    usage: Mapping[ToolKey, float]
    """How much tools are used, from 0 to 1."""

    def answer(self, accepts: Callable[[Entry], bool]) -> SearchAnswer:
        """The accepted tools that fit, or else the nearest."""
        found = self._find(max(self.limit, self.searcher.assessed_hits), accepts)
        assessment = self.searcher.assess(self.query, found, self.similarities)
        fits = bool(found) and assessment.confidence >= self.least
        hits = _head(found[: self.limit]) if fits else ()
        return SearchAnswer(
            self.query.text,
            hits,
            confidence=assessment.confidence,
            alike=max(1, min(assessment.alike, len(hits))),
            nearest=() if fits else found[: min(self.limit, _NEAREST)],
            uncovered=assessment.unknown,
        )

    def better_hits(self, shown: SearchAnswer, accepts: Callable[[Entry], bool]) -> tuple[Hit, ...]:
        """The accepted tools that fit, and better than all that is shown."""
        best = max((hit.relevance for hit in (*shown.hits, *shown.nearest)), default=0.0)
        if best >= 1:
            return ()
        found = self._find(_COUNTED, accepts)
        assessment = self.searcher.assess(self.query, found, self.similarities)
        if not found or assessment.confidence < self.least:
            return ()
        return tuple(hit for hit in _head(found) if hit.relevance > best)

    def _find(self, most: int, accepts: Callable[[Entry], bool]) -> tuple[Hit, ...]:
        return self.searcher.search(
            self.query,
            limit=most,
            accepts=accepts,
            similarities=self.similarities,
            usage=self.usage,
        )


def _head(found: Sequence[Hit]) -> tuple[Hit, ...]:
    """Without the tail that is far below the first."""
    return tuple(hit for hit in found if hit.relevance >= _TAIL * found[0].relevance)


def _alternative(entry: Entry, entries: Sequence[Entry]) -> Alternative:
    tool = entry.tool
    others = [other.tool for other in entries if other is not entry]
    said = {word for other in others for word in words(other.name)}
    required = {p.name for other in others for p in other.parameters if p.required}
    return Alternative(
        tool.server,
        tool.name,
        tuple(word for word in words(tool.name) if word not in said),
        tuple(p.name for p in tool.parameters if p.required and p.name not in required),
    )
