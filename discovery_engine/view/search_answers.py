"""The answer to a search: the tools that fit the query, those that might, or that none does.

A caller can rely on the first hit of a match. Those of an unsure answer are to be checked before
one is called. If none fits, the nearest tools are returned separately, never as hits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.view.notices import Notice

if TYPE_CHECKING:
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import Similarities

SearchKind: TypeAlias = Literal["tool", "resource", "prompt"]
"""The kinds that a search may find; a template is a resource."""
TOOLS_ONLY: tuple[SearchKind, ...] = ("tool",)
SEARCH_KINDS: tuple[SearchKind, ...] = get_args(SearchKind)

_NEAREST = 3  # tools named where none fits
# Of the best relevance; hits below it are almost never right. `scripts/fit_ranking.py`: a quarter
# less gains 18, a quarter more loses 23 of 10,000 in NDCG@10, but less shows more wrong hits.
_TAIL = 0.35
# The least confidence of a match that is sure, and of any: more than every word of a query gives.
_SURE, _MATCH = 0.9, 0.62
# With a sentence model the confidence tells more: at 0.7 a quarter of the near misses of everyday
# requests are a match, and as many of the served ones as by words at 0.6.
_MATCH_BY_MODEL = 0.7
_COUNTED = 50  # hidden tools that match better; more are not counted


class Decision(StrEnum):
    """The outcome of a search."""

    MATCH = "match"
    """The first hit probably fits the query; others may, too."""
    UNSURE = "unsure"
    """The hits are the nearest tools; whether one fits is to be checked before it is called."""
    NONE = "none"
    """Probably no tool fits the query."""


class Certainty(StrEnum):
    """The confidence of a match as a word, because numbers are misread."""

    SURE = "sure"
    """In at least nine of ten such answers one of the first five tools fits."""
    LIKELY = "likely"


class Alternative(Struct, frozen=True):
    """How a tool differs from those that fit equally well."""

    server: ServerName
    tool: ToolName
    words: tuple[str, ...]
    """Words of its name that the others' names lack."""
    required: tuple[str, ...]
    """Required arguments that the others do not require."""


class OfferingHit(Struct, frozen=True):
    """A resource, a template or a prompt that a search found."""

    entry: OfferingEntry
    address: str
    """The address by which it is read or got."""
    relevance: float
    """The same measure as in a `Hit`; comparable with that of tools."""


class SearchAnswer(Struct, frozen=True):
    """The answer to one query."""

    query: str
    hits: tuple[Hit, ...]
    """The tools that fit or, in an unsure answer, might; those far below the first are left out."""
    notices: tuple[Notice, ...] = ()
    confidence: float = 0.0
    """The probability that one of the first tools fits."""
    least_match: float = _MATCH
    """The confidence from which it is a match."""
    alike: int = 1
    """How many of the first hits fit about equally well."""
    nearest: tuple[Hit, ...] = ()
    """The nearest tools, if nothing fits."""
    uncovered: tuple[str, ...] = ()
    """Words of the query that no tool mentions; of an unsure answer, none of its first hits."""
    undone: tuple[str, ...] = ()
    """The verbs that the query asks for, if no near tool of the first server seems to do them."""
    offerings: tuple[OfferingHit, ...] = ()
    """The resources, templates and prompts that fit, if they were asked for."""

    @property
    def decision(self) -> Decision:
        if not self.hits:
            return Decision.NONE
        return Decision.MATCH if self.confidence >= self.least_match else Decision.UNSURE

    @property
    def certainty(self) -> Certainty | None:
        """How certain a match is; None without one."""
        if self.decision is not Decision.MATCH:
            return None
        return Certainty.SURE if self.confidence >= _SURE else Certainty.LIKELY

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """How the hits of a match that fit equally well differ; empty if the first stands out."""
        is_match = self.decision is Decision.MATCH
        entries = [hit.entry for hit in self.hits[: self.alike]] if is_match else []
        return tuple(_alternative(e, entries) for e in entries) if len(entries) > 1 else ()


class QueryRunner(Struct, frozen=True):
    """Runs one query over all tools or some."""

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

    def answer(
        self,
        accepts: Callable[[Entry], bool],
        within: Subset | None = None,
    ) -> SearchAnswer:
        """The accepted tools that fit, otherwise the nearest; `within` has all that are."""
        candidates = self._find(max(self.limit, self.searcher.assessed_hits), accepts, within)
        assessment = self.searcher.assess(self.query, candidates, self.similarities)
        fits = bool(candidates) and assessment.confidence >= self.least
        hits = _head(candidates[: self.limit]) if fits else ()
        answer = SearchAnswer(
            self.query.text,
            hits,
            confidence=assessment.confidence,
            least_match=_least_match(self.similarities),
            alike=max(1, min(assessment.alike, len(hits))),
            nearest=() if fits else candidates[: min(self.limit, _NEAREST)],
            uncovered=assessment.unknown,
        )
        if answer.decision is not Decision.UNSURE:
            return answer
        gaps = self.searcher.gaps(self.query, candidates)
        return replace(answer, uncovered=gaps.words, undone=gaps.operations)

    def better_hits(
        self, shown: SearchAnswer, accepts: Callable[[Entry], bool], within: Subset
    ) -> tuple[Hit, ...]:
        """The accepted tools that fit better than all that are shown."""
        best = max((hit.relevance for hit in (*shown.hits, *shown.nearest)), default=0.0)
        if best >= 1:
            return ()
        candidates = self._find(_COUNTED, accepts, within)
        assessment = self.searcher.assess(self.query, candidates, self.similarities)
        if not candidates or assessment.confidence < self.least:
            return ()
        return tuple(hit for hit in _head(candidates) if hit.relevance > best)

    def _find(
        self, most: int, accepts: Callable[[Entry], bool], within: Subset | None
    ) -> tuple[Hit, ...]:
        return self.searcher.search(
            self.query,
            limit=most,
            accepts=accepts,
            similarities=self.similarities,
            usage=self.usage,
            within=within,
        )


def _least_match(similarities: Similarities | None) -> float:
    is_by_model = similarities is not None and not similarities.is_static
    return _MATCH_BY_MODEL if is_by_model else _MATCH


def _head(found: Sequence[Hit]) -> tuple[Hit, ...]:
    """Without the tail that is far below the first."""
    return tuple(hit for hit in found if hit.relevance >= _TAIL * found[0].relevance)


def _alternative(entry: Entry, entries: Sequence[Entry]) -> Alternative:
    # Only after a search, which has loaded it; its patterns take a millisecond of other starts.
    from discovery_engine.search.text.tokenizer import words  # noqa: PLC0415

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
