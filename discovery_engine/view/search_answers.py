"""Searches of a view, whose answers are a match, unsure or none, with notices of the reasons.

Callers may rely on the first hit of a match. They must check the hits of an unsure answer before
they call one. If no tool fits, the nearest ones are returned separately, never as hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.rules.rule import FOR_REVIEW, public_decider
from discovery_engine.tools import limits
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.upstream.state import ServerState
from discovery_engine.view import notices
from discovery_engine.view.notices import Notice, verdict_place
from discovery_engine.view.scoped_catalog import ScopedCatalog

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.config.settings import Calibration, Settings
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.index.index import Subset
    from discovery_engine.search.query.retrieval import AnalyzedQuery
    from discovery_engine.search.ranking.confidence import Assessment
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import Similarities, ToolVectors
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.notices import RegistryOutage, Rejection
    from discovery_engine.view.status import ConfiguredServers
else:  # `help(SearchAnswer)` needs the name; importing the search for it would slow every start
    Hit = object

SearchKind: TypeAlias = Literal["tool", "resource", "prompt", "skill"]
"""The kinds of items that a search may find; resource templates count as resources."""
TOOLS_ONLY: tuple[SearchKind, ...] = ("tool",)
SEARCH_KINDS: tuple[SearchKind, ...] = get_args(SearchKind)

_NEAREST = 3  # nearest tools in an answer without hits
# The share of the best relevance below which hits are almost never right. By
# `scripts/fit_ranking.py`, a quarter less gains 0.0018 and a quarter more loses 0.0023 of NDCG@10,
# but less shows more wrong hits.
_TAIL = 0.35
_MOST = 5  # hits of a match; of 635 likely ones four had the right tool further down
_SURE_TAIL = 0.7  # as `_TAIL`, of a sure match; none of 683 had the right tool further down
_SURE = 0.9  # the least confidence of a sure match
LEAST_MATCH = 0.5
"""The least confidence of a match. If the first tool is probably wrong, confidence is lower."""
_COUNTED = 50  # the most hidden tools with a better match that are counted


class Decision(StrEnum):
    """The outcome of a search."""

    MATCH = "match"
    """The first hit probably fits the query; others may, too."""
    UNSURE = "unsure"
    """The hits are the nearest tools; check whether one fits before calling it."""
    NONE = "none"
    """Probably no tool fits the query."""


class Certainty(StrEnum):
    """The confidence of a match as a word, because numbers are misread."""

    SURE = "sure"
    """One of the first five tools fits in at least nine of ten such answers."""
    LIKELY = "likely"


class Alternative(Struct, frozen=True):
    """The differences of a tool from others that fit about equally well."""

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
    """The URI or name by which clients request it."""
    relevance: float
    """The relevance, comparable with that of a `Hit`."""


class SearchAnswer(Struct, frozen=True):
    """The answer to one query."""

    query: str
    hits: tuple[Hit, ...]
    """The tools that fit, or may fit in an unsure answer, without those far below the first."""
    notices: tuple[Notice, ...] = ()
    confidence: float = 0.0
    """The probability that one of the first tools fits."""
    alike: int = 1
    """The number of first hits that fit about equally well."""
    nearest: tuple[Hit, ...] = ()
    """The nearest tools, if nothing fits."""
    uncovered: tuple[str, ...] = ()
    """Words of the query that no tool mentions; in an unsure answer, that no hit mentions."""
    uncovered_by: str = ""
    """The server that is meant, if it is only none of its tools that mentions these words."""
    undone: tuple[str, ...] = ()
    """Verbs of the query for which the first server seems to have no similar tool."""
    elsewhere: str = ""
    """The server that the query names, if an unsure answer begins with a tool of another one."""
    product: str = ""
    """The product that the query names, if no hit of an unsure answer is of it."""
    about: str = ""
    """The object of the query, if an unsure answer begins with a tool about something else."""
    is_order: bool = False
    """True if a query without a match is a verb with its object, so that no other words help."""
    offerings: tuple[OfferingHit, ...] = ()
    """The resources, templates and prompts that fit, if the search included them."""

    @property
    def decision(self) -> Decision:
        if not self.hits:
            return Decision.NONE
        return Decision.MATCH if self.confidence >= LEAST_MATCH else Decision.UNSURE

    @property
    def certainty(self) -> Certainty | None:
        """The certainty of a match; None for other decisions."""
        if self.decision is not Decision.MATCH:
            return None
        return Certainty.SURE if self.confidence >= _SURE else Certainty.LIKELY

    def at_least(self, relevance: float) -> SearchAnswer:
        """Leave out what has less relevance, from 0 to 1, with a notice of what that was."""
        of_results = [hit.relevance for hit in self.hits] + [o.relevance for o in self.offerings]
        weak = [share for share in of_results if share < relevance]
        if not weak:
            return self
        hits = tuple(hit for hit in self.hits if hit.relevance >= relevance)
        return replace(
            self if hits else SearchAnswer(self.query, ()),
            hits=hits,
            alike=max(1, min(self.alike, len(hits))),
            offerings=tuple(o for o in self.offerings if o.relevance >= relevance),
            notices=(*self.notices, notices.too_weak(len(weak), max(weak), relevance)),
        )

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The differences of the hits that fit equally well; empty if the first stands out."""
        is_match = self.decision is Decision.MATCH
        entries = [hit.entry for hit in self.hits[: self.alike]] if is_match else []
        return tuple(_alternative(e, entries) for e in entries) if len(entries) > 1 else ()


class QueryRunner(Struct, frozen=True):
    """Runs one query over all tools or some of them."""

    query: AnalyzedQuery
    searcher: Searcher
    """The searcher that analyzed the query."""
    similarities: Similarities | None
    limit: int
    """The most hits of an answer."""
    least: float
    """The confidence below which nothing fits."""
    usage: Mapping[ToolKey, float]
    """The share of uses of each tool, from 0 to 1."""
    is_brief: bool = True
    """False if the caller set the limit: then a match has as many hits as fit."""
    calibration: Calibration | None = None
    order: Sequence[ToolKey] = ()
    """The order of some tools, which takes the place of theirs."""

    def answer(
        self,
        accepts: Callable[[Entry], bool],
        within: Subset | None = None,
    ) -> SearchAnswer:
        """Return the accepted tools that fit, or else the nearest ones.

        `within` contains all accepted tools, and speeds up the search; None for all tools.
        """
        ranked = self._find(max(self.limit, self.searcher.assessed_hits), accepts, within)
        candidates = tuple(hit for hit in ranked if hit.entry.tool.is_for_models)
        assessment = self._assess(candidates)
        fits = bool(candidates) and assessment.confidence >= self.least
        is_one_task = self.is_brief and not self.query.terms.clauses
        confidence = assessment.confidence if is_one_task else 0.0
        hits = _head(candidates[: self.limit], confidence) if fits else ()
        answer = SearchAnswer(
            self.query.text,
            hits,
            confidence=assessment.confidence,
            alike=max(1, min(assessment.alike, len(hits))),
            nearest=() if fits else candidates[: min(self.limit, _NEAREST)],
            uncovered=assessment.unknown,
        )
        if answer.decision is Decision.MATCH:
            return answer
        answer = replace(answer, is_order=self.searcher.is_order(self.query))
        if answer.decision is Decision.NONE:
            return answer
        gaps = self.searcher.gaps(self.query, hits)
        return replace(
            answer,
            hits=hits[:_NEAREST] if gaps.product else hits,
            uncovered=gaps.words,
            uncovered_by=gaps.words_server,
            undone=gaps.operations,
            elsewhere=gaps.server,
            product=gaps.product,
            about=gaps.object,
        )

    def better_hits(
        self, shown: SearchAnswer, accepts: Callable[[Entry], bool], within: Subset
    ) -> tuple[Hit, ...]:
        """Return the accepted tools that fit better than every tool in the answer `shown`."""
        best = max((hit.relevance for hit in (*shown.hits, *shown.nearest)), default=0.0)
        if best >= 1:
            return ()
        candidates = self._find(_COUNTED, accepts, within)
        if all(hit.relevance <= best for hit in candidates):  # usual; to assess them costs 0.4 ms
            return ()
        assessment = self._assess(candidates)
        if assessment.confidence < self.least:
            return ()
        return tuple(hit for hit in _head(candidates) if hit.relevance > best)

    def _assess(self, hits: Sequence[Hit]) -> Assessment:
        return self.searcher.assess(self.query, hits, self.similarities, self.calibration)

    def _find(
        self, most: int, accepts: Callable[[Entry], bool], within: Subset | None
    ) -> tuple[Hit, ...]:
        hits = self.searcher.search(
            self.query,
            limit=max(most, len(self.order)),
            accepts=accepts,
            similarities=self.similarities,
            usage=self.usage,
            within=within,
        )
        return _reordered(hits, self.order) if self.order else hits


def _reordered(hits: Sequence[Hit], order: Sequence[ToolKey]) -> tuple[Hit, ...]:
    """Put the hits that `order` names in its order, at the places and relevances that they have."""
    by_key = {hit.entry.key: hit for hit in hits}
    moved = (by_key[key] for key in order if key in by_key)
    named = set(order)
    return tuple(
        next(moved).with_relevance(hit.relevance) if hit.entry.key in named else hit for hit in hits
    )


def _head(hits: Sequence[Hit], confidence: float = 0.0) -> tuple[Hit, ...]:
    """Drop the hits that are far behind the first, at most `_MOST` of a match."""
    most = _MOST if confidence >= LEAST_MATCH else len(hits)
    tail = _SURE_TAIL if confidence >= _SURE else _TAIL
    return tuple(hit for hit in hits[:most] if hit.relevance >= tail * hits[0].relevance)


def _alternative(entry: Entry, entries: Sequence[Entry]) -> Alternative:
    # A search has imported it already; at the top it would slow every start by a millisecond.
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


class SearchMemo(Struct):
    """Values that were computed from the catalog once for all searches."""

    has_hidden: bool | None = None
    shown: tuple[Searcher, Subset] | None = None
    """A searcher, and the tools of the scope in its index."""


class ToolSearch(Struct, frozen=True):
    """Searches the tools of a view; `search` and `search_everything` are those of `View`."""

    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    searcher: Searcher
    vectors: ToolVectors | None
    usage: Mapping[ToolKey, float]
    notices: AnswerNotices
    memo: SearchMemo

    def search(
        self,
        query: str,
        *,
        server: str | None,
        tags: Sequence[str],
        any_tag: bool,
        limit: int | None,
        include_disabled: bool,
        query_vectors: Sequence[Vector],
        order: Sequence[ToolKey],
    ) -> SearchAnswer:
        """Search the tools; see `View.search`."""
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None
        required_tags = set(tags)

        def is_asked_for(entry: Entry) -> bool:
            has_tags = not required_tags or entry.verdict.carries(required_tags, any_tag=any_tag)
            return has_tags and (only is None or entry.tool.server == only)

        def is_listed(entry: Entry) -> bool:
            return may_be_listed(entry, include_disabled=include_disabled)

        def accepts(entry: Entry) -> bool:
            return is_asked_for(entry) and is_listed(entry)

        def is_hidden(entry: Entry) -> bool:
            return is_asked_for(entry) and not is_listed(entry)

        runner = self._runner(query, query_vectors, limit, order)
        view_tools = self._shown()
        candidates = self._asked_for(only, frozenset(required_tags), view_tools, any_tag=any_tag)
        has_hidden = self._has_hidden(only)
        within = _both(candidates, self.searcher.visible) if has_hidden else candidates
        answer = runner.answer(accepts, candidates if include_disabled else within)
        if not self.settings.enabled:
            return replace(answer, notices=(notices.switched_off(),))
        missing = [*self._unindexed(), *self.notices.missing(only)]
        better: Sequence[Hit] = ()
        if has_hidden:
            better = runner.better_hits(answer, is_hidden, _both(candidates, self.searcher.hidden))
        if better and answer.decision is Decision.MATCH:
            # The search has imported it already; other answers do not need it.
            from discovery_engine.search.ranking.confidence import (  # noqa: PLC0415
                UNSURE_CONFIDENCE,
            )

            answer = replace(answer, confidence=UNSURE_CONFIDENCE)
        first = [self.notices.hidden(hit.entry for hit in better)] if better else []
        if answer.decision is Decision.NONE:
            fitting: Sequence[Hit] = ()
            if not better and (only or required_tags):
                fitting = runner.answer(is_listed, view_tools).hits
            first += self.notices.for_nothing(only, required_tags, fitting, is_hidden=bool(better))
        return replace(answer, notices=(*first, *missing))

    def search_everything(
        self,
        query: str,
        *,
        server: str | None,
        tags: Sequence[str],
        limit: int | None,
        query_vectors: Sequence[Vector],
    ) -> SearchAnswer:
        """Search the tools as if nothing was hidden; see `View.search_everything`."""
        limits.require_query(query)
        only = self.addresses.server(server) if server else None
        required_tags = frozenset(tags)
        runner = self._runner(query, query_vectors, limit)

        def is_asked_for(entry: Entry) -> bool:
            return entry.verdict.carries(required_tags) and (
                only is None or entry.tool.server == only
            )

        return runner.answer(is_asked_for, self._asked_for(only, required_tags, None))

    def _runner(
        self,
        query: str,
        vectors: Sequence[Vector],
        limit: int | None,
        order: Sequence[ToolKey] = (),
    ) -> QueryRunner:
        settings, searcher, calibration = self.settings.search, self.searcher, None
        if self.settings.calibration:
            # The search has imported it already.
            from discovery_engine.search.ranking.confidence import (  # noqa: PLC0415
                calibration_in_use,
            )

            calibration = calibration_in_use(self.settings)
        return QueryRunner(
            searcher.analyze(query),
            searcher,
            self.vectors.compare(vectors) if self.vectors else None,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
            usage=self.usage,
            is_brief=limit is None,
            calibration=calibration,
            order=order,
        )

    def _unindexed(self) -> list[Notice]:
        return [notices.unindexed()] if self.searcher.unindexed else []

    def _shown(self) -> Subset | None:
        """Return the tools of the scope as a subset of the index; None if all are in scope."""
        if not isinstance(self.catalog, ScopedCatalog):
            return None
        cache = self.memo.shown
        if cache is None or cache[0] is not self.searcher:
            subset = self.searcher.tools_of(self.catalog.tools_shown())
            cache = self.memo.shown = self.searcher, subset
        return cache[1]

    def _asked_for(
        self,
        only: ServerName | None,
        tags: frozenset[str],
        subset: Subset | None,
        *,
        any_tag: bool = False,
    ) -> Subset | None:
        """Restrict `subset` to one server and to tags; None stands for all tools."""
        if only:
            subset = _both(subset, self.searcher.tools_of({only: None}))
        return _both(subset, self.searcher.tools_with(tags, any_tag=any_tag)) if tags else subset

    def _has_hidden(self, only: ServerName | None) -> bool:
        """Return whether the servers in scope have a tool that is not visible."""
        if only:
            return self.catalog.part(only).has_hidden
        if self.memo.has_hidden is None:
            self.memo.has_hidden = any(p.has_hidden for p in self.catalog.parts_with_hidden())
        return self.memo.has_hidden


def _both(left: Subset | None, right: Subset) -> Subset:
    return right if left is None else left & right


def may_be_listed(entry: Entry, *, include_disabled: bool) -> bool:
    """Return whether a tool is visible, or at least not withheld with `include_disabled`."""
    return entry.is_visible or (include_disabled and not entry.is_withheld)


class NoticeMemo(Struct):
    """Notices that were computed from the catalog once for all answers."""

    held_back: tuple[Notice, ...] | None = None
    unusable: tuple[Notice, ...] | None = None


class AnswerNotices(Struct, frozen=True):
    """Makes the notices of a view's answers."""

    settings: Settings
    catalog: Catalog
    servers: ConfiguredServers
    rejection: Rejection | None
    lost_at: float | None
    outage: RegistryOutage | None
    memo: NoticeMemo
    is_for_owner: bool = True

    def general(self) -> tuple[Notice, ...]:
        """Return the notices about the view as a whole."""
        rejected = (notices.rejected(self.rejection),) if self.rejection else ()
        off = () if self.settings.enabled else (notices.switched_off(),)
        none = () if self.settings.servers else (notices.no_server(self.settings),)
        return (*rejected, *self._of_registry(), *off, *none)

    def missing(self, only: ServerName | None) -> list[Notice]:
        """Return the notices about missing tools of one server, or of all in scope."""
        held_back = [*self._of_registry(), *self._held_back(only)]
        # For a search over all servers, some unusable tools of a server with others do not matter.
        unusable = [n for n in self.unusable(only) if only or not self._has_tools(n.server)]
        return [*self.servers.outages(only), *held_back, *unusable]

    def unusable(self, only: ServerName | None) -> tuple[Notice, ...]:
        """Return a notice for each enabled server in scope that lists unusable definitions."""
        if only:
            return tuple(_unusable_of([self.catalog.part(only)]))
        if self.memo.unusable is None:
            self.memo.unusable = tuple(_unusable_of(self.catalog.parts_with_hidden()))
        return self.memo.unusable

    def hidden(self, entries: Iterable[Entry]) -> Notice:
        """Return the notice about hidden tools that fit."""
        return self._public(notices.hidden([self._hidden_tool(entry) for entry in entries]))

    def for_nothing(
        self, only: ServerName | None, tags: set[str], fitting: Sequence[Hit], *, is_hidden: bool
    ) -> list[Notice]:
        """Return the reasons for an answer without hits, unlisted servers first.

        Args:
            only: The server to which the search is limited; None for all.
            tags: The tags to which it is limited.
            fitting: The hits without these limits.
            is_hidden: Whether a notice about hidden tools that fit was added already.
        """
        if not self.settings.servers:
            return [notices.no_server(self.settings)]
        reasons = []
        if fitting:
            first = fitting[0].entry.key.label
            reasons = [notices.filtered(len(fitting), first, only, tags)]
        parts = [self.catalog.part(only)] if only else self.catalog.parts.values()
        is_known = any(part.visible_count for part in parts)
        if unlisted := self._unlisted(only, is_none_known=not (is_known or is_hidden)):
            return [unlisted, *reasons]
        if is_hidden or (is_known and fitting):
            return reasons
        if is_known:
            return [notices.no_match(tags)]
        info = self.servers.get(only).info if only else None
        why_off = info.reason if info and info.state is ServerState.DISABLED else ""
        return [notices.no_enabled_tool(only, why_off), *reasons]

    def _unlisted(self, only: ServerName | None, *, is_none_known: bool) -> Notice | None:
        """Return a notice about the servers whose tools were never listed; None if all were."""
        servers = [self.servers.get(only)] if only else self.servers
        usable = [server for server in servers if server.is_enabled]
        unlisted = [server for server in usable if server.is_unlisted]
        if not unlisted:
            return None
        if is_none_known:
            return notices.nothing_known(only)
        down = sum(server.is_unavailable for server in unlisted)
        return notices.incomplete(len(usable), starting=len(unlisted) - down, unavailable=down)

    def _of_registry(self) -> tuple[Notice, ...]:
        lost = () if self.lost_at is None else (notices.lost(self.lost_at),)
        outage = (self._public(notices.registry_outage(self.outage)),) if self.outage else ()
        return (*lost, *outage)

    def _held_back(self, only: ServerName | None) -> tuple[Notice, ...]:
        """Return the notices about withheld tools of one server, or of all in scope."""
        if only:
            return tuple(_held_back_of([self.catalog.part(only)]))
        if self.memo.held_back is None:
            self.memo.held_back = tuple(_held_back_of(self.catalog.parts_with_hidden()))
        return self.memo.held_back

    def _has_tools(self, server: ServerName | None) -> bool:
        return server is not None and bool(self.catalog.part(server).entries)

    def _public(self, notice: Notice) -> Notice:
        """Remove the owner's text for other clients: it may concern servers hidden from them."""
        return notice if self.is_for_owner else replace(notice, to_owner="")

    def _hidden_tool(self, entry: Entry) -> notices.HiddenTool:
        place = verdict_place(self.settings, entry)
        return notices.HiddenTool(entry.key.label, public_decider(entry.verdict), place)


def _unusable_of(parts: Iterable[ServerPart]) -> Iterator[Notice]:
    for part in parts:
        if part.dropped and part.verdict.enabled:
            yield notices.unusable(part.server, len(part.dropped))


def _held_back_of(parts: Iterable[ServerPart]) -> Iterator[Notice]:
    for part in parts:
        waiting = part.held_back(FOR_REVIEW), part.offerings_held_back(FOR_REVIEW)
        if any(waiting):
            yield notices.review(part.server, *waiting)
        unpinned = part.held_back({"unpinned"}), part.offerings_held_back({"unpinned"})
        if any(unpinned):
            yield notices.unpinned(part.server, *unpinned)
