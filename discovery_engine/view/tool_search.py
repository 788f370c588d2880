"""The search of a view for tools: which may be found, and why none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.search.ranking.confidence import UNSURE_CONFIDENCE
from discovery_engine.tools import limits
from discovery_engine.view import notices
from discovery_engine.view.scoped_catalog import ScopedCatalog
from discovery_engine.view.search_answers import Decision, QueryRunner, SearchAnswer

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.answer_notices import AnswerNotices


class SearchMemo(Struct):
    """Values that were computed from the catalog once for all searches."""

    has_hidden: bool | None = None
    shown: tuple[Searcher, Subset] | None = None
    """The tools of a scope, in the index of that searcher."""


class ToolSearch(Struct, frozen=True):
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
    ) -> SearchAnswer:
        """Search the tools; see `View.search`."""
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None
        required_tags = set(tags)

        def is_asked_for(entry: Entry) -> bool:
            return entry.verdict.carries(required_tags, any_tag=any_tag) and (
                only is None or entry.tool.server == only
            )

        def is_listed(entry: Entry) -> bool:
            return may_be_listed(entry, include_disabled=include_disabled)

        def accepts(entry: Entry) -> bool:
            return is_asked_for(entry) and is_listed(entry)

        def is_hidden(entry: Entry) -> bool:
            return is_asked_for(entry) and not is_listed(entry)

        runner = self._runner(query, query_vectors, limit)
        view_tools = self._shown()
        candidates = self._asked_for(only, frozenset(required_tags), view_tools, any_tag=any_tag)
        has_hidden = self._has_hidden(only)
        within = _both(candidates, self.searcher.visible) if has_hidden else candidates
        answer = runner.answer(accepts, candidates if include_disabled else within)
        if not self.settings.enabled:
            return replace(answer, notices=(notices.switched_off(),))
        missing = self.notices.missing(only)
        better: Sequence[Hit] = ()
        if has_hidden:
            better = runner.better_hits(answer, is_hidden, _both(candidates, self.searcher.hidden))
        if better and answer.decision is Decision.MATCH:
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

    def _runner(self, query: str, vectors: Sequence[Vector], limit: int | None) -> QueryRunner:
        settings, searcher = self.settings.search, self.searcher
        return QueryRunner(
            searcher.analyze(query),
            searcher,
            self.vectors.compare(vectors) if self.vectors else None,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
            usage=self.usage,
        )

    def _shown(self) -> Subset | None:
        """The tools of the view in the index; None if it has all of them."""
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
        shown: Subset | None,
        *,
        any_tag: bool = False,
    ) -> Subset | None:
        """Return the tools of one server, and with some tags, of `shown`; None if these are all."""
        if only:
            shown = _both(shown, self.searcher.tools_of({only: None}))
        return _both(shown, self.searcher.tools_with(tags, any_tag=any_tag)) if tags else shown

    def _has_hidden(self, only: ServerName | None) -> bool:
        """Return whether the servers in scope have a tool that is not visible."""
        if only:
            return self.catalog.part(only).has_hidden
        if self.memo.has_hidden is None:
            self.memo.has_hidden = any(p.has_hidden for p in self.catalog.parts_with_hidden())
        return self.memo.has_hidden


def _both(one: Subset | None, other: Subset) -> Subset:
    return other if one is None else one & other


def may_be_listed(entry: Entry, *, include_disabled: bool) -> bool:
    return entry.is_visible or (include_disabled and not entry.is_withheld)
