"""The search of a view for tools: which may be found, and why none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine import limits
from discovery_engine.view import notices
from discovery_engine.view.search_answers import Decision, QueryRunner, SearchAnswer

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import Vectors
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.answer_notices import AnswerNotices


class SearchMemo(Struct):
    """What was computed of the catalog for all searches."""

    has_hidden: bool | None = None
    subset: tuple[Searcher, Subset] | None = None
    """The tools of a narrow view, in the index of that searcher."""


class ToolSearch(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    searcher: Searcher
    vectors: Vectors | None
    usage: Mapping[ToolKey, float]
    notices: AnswerNotices
    is_scoped: bool
    is_narrow: bool
    """As of the view."""
    memo: SearchMemo

    def search(
        self,
        query: str,
        *,
        server: str | None,
        tags: Sequence[str],
        limit: int | None,
        include_disabled: bool,
        query_vectors: Sequence[Vector],
    ) -> SearchAnswer:
        """As `View.search`."""
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None
        wanted = set(tags)

        def in_scope(entry: Entry) -> bool:
            is_tagged = not wanted or wanted.issubset(entry.verdict.tags)
            is_asked_for = is_tagged and (only is None or entry.tool.server == only)
            return is_asked_for and self._shows(entry)

        def accepts(entry: Entry) -> bool:
            return in_scope(entry) and may_be_listed(entry, include_disabled=include_disabled)

        def is_hidden(entry: Entry) -> bool:
            return in_scope(entry) and not accepts(entry)

        runner = self._runner(query, query_vectors, limit)
        within = self._subset()
        answer = runner.answer(accepts, server=only, tags=frozenset(wanted), within=within)
        if not self.settings.enabled:
            return replace(answer, notices=(notices.switched_off(),))
        missing = self.notices.missing(only)
        better = runner.better_hits(answer, is_hidden) if self._has_hidden(only) else ()
        first = [self.notices.hidden(hit.entry for hit in better)] if better else []
        if answer.decision is Decision.NONE:

            def is_listed(entry: Entry) -> bool:
                return self._shows(entry) and may_be_listed(
                    entry, include_disabled=include_disabled
                )

            fitting: tuple[Hit, ...] = ()
            if not better and (only or wanted):
                fitting = runner.answer(is_listed, within=within).hits
            first += self.notices.for_nothing(only, wanted, fitting, is_hidden=bool(better))
        return replace(answer, notices=(*first, *missing))

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

    def _subset(self) -> Subset | None:
        """The tools of a narrow view in the index; None if all of it is searched."""
        if not self.is_narrow:
            return None
        known = self.memo.subset
        if known is None or known[0] is not self.searcher:
            known = self.memo.subset = self.searcher, self.searcher.subset(self._shows)
        return known[1]

    def _shows(self, entry: Entry) -> bool:
        """Whether a tool that was found is one of this view."""
        tool = entry.tool
        return not self.is_scoped or self.catalog.get(tool.server, tool.name) is not None

    def _has_hidden(self, only: ServerName | None) -> bool:
        """Whether the servers in scope have a tool that is not visible."""
        if only:
            return self.catalog.part(only).has_hidden
        if self.memo.has_hidden is None:
            self.memo.has_hidden = any(p.has_hidden for p in self.catalog.parts.values())
        return self.memo.has_hidden


def may_be_listed(entry: Entry, *, include_disabled: bool) -> bool:
    return entry.is_visible or (include_disabled and not entry.is_withheld)
