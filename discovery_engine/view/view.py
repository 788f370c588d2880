"""An immutable snapshot to answer from: settings, catalog and searcher.

Every read of the engine, the server and the command line is answered by the current view, without
waiting. `Entry.is_visible` alone decides what an agent may see, and every answer names what is
missing from it (`Notice`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine import limits
from discovery_engine.catalog import Catalog, Entry, OfferingEntry, ServerPart
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import (
    PromptDisabledError,
    ResourceDisabledError,
    ToolDisabledError,
    ToolWithheldError,
    UntrustedServerError,
    concerning,
)
from discovery_engine.rules.rule import FOR_REVIEW, Rule
from discovery_engine.rules.rule_explanation import Subject, decider, describe, public_decider
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.state import StateInfo
from discovery_engine.view import notices
from discovery_engine.view.addresses import AddressBook
from discovery_engine.view.notices import Notice, Rejection
from discovery_engine.view.offering_addresses import OfferingBook, ResourceTarget
from discovery_engine.view.per_server import PerServer
from discovery_engine.view.search_answers import (
    Decision,
    OfferingHit,
    QueryRunner,
    SearchAnswer,
    SearchKind,
)
from discovery_engine.view.status import ConfiguredServer, ServerReport

if TYPE_CHECKING:
    from discovery_engine.scanner.findings import Finding
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.index.subset import Subset
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import Vectors

    OpenSearcher: TypeAlias = Callable[[], Searcher]
else:  # `help(View)` needs the names; loading the search for them would make every start slower
    OpenSearcher, Vectors = Callable, object


T = TypeVar("T")

# Of the tools without the scope. With half of them hidden, a search of all takes 5 times as long
# (benchmarks/views.py); what a subset of the index takes grows with what is shown.
_NARROW = 0.8
_SHARED = ("addresses", "offerings", "connectable", "_configured", "_computed")


class _Computed(Struct):
    """What was computed for all servers, so that an answer looks only at those that changed."""

    reports: PerServer[ServerReport] | None = None
    outages: PerServer[Notice | None] | None = None
    held_back: tuple[Notice, ...] | None = None
    has_hidden: bool | None = None
    subset: tuple[Searcher, Subset] | None = None
    """The tools of a narrow view, in the index of that searcher."""


class ToolList(Struct, frozen=True):
    """The tools of one server, and notices about what is missing."""

    server: ServerName
    entries: tuple[Entry, ...]
    notices: tuple[Notice, ...] = ()


class OfferingList(Struct, frozen=True):
    """The resources, the templates or the prompts of servers, and notices about what is missing."""

    entries: tuple[OfferingEntry, ...]
    notices: tuple[Notice, ...] = ()


class View(Struct, frozen=True, dict=True):
    """A snapshot of settings, catalog and live states."""

    settings: Settings
    catalog: Catalog
    open_searcher: OpenSearcher
    """Opens the searcher over `catalog`; called at the first search."""
    live: Mapping[ServerName, StateInfo] = field(default_factory=lambda: MappingProxyType({}))
    """The live states of the servers used so far; those of the others follow from the catalog.

    Computed for the servers in scope only, so that the cost of a call does not depend on the number
    of servers."""

    rejection: Rejection | None = None
    """Why the files contain other settings that are invalid; None if they do not."""
    lost_at: float | None = None
    """Unix time in seconds at which decisions of the owner were found to be lost; None if none."""
    vectors: Vectors | None = None
    """The vectors of tools; None if search is by words only."""
    usage: Mapping[ToolKey, float] = field(default_factory=lambda: MappingProxyType({}))
    """How often tools were called after a search, from 0 to 1, if `search.learn` is set."""
    is_scoped: bool = False
    """Whether the searcher has tools that `catalog` has not, which are not to be shown."""
    is_narrow: bool = False
    """Whether these are so many that a search of all of them would take several times as long."""

    @cached_property
    def searcher(self) -> Searcher:
        return self.open_searcher()

    def within(self, catalog: Catalog, settings: Settings) -> View:
        """The same view of a part of its catalog, as a scope shows it; the searcher is shared."""
        is_narrow = self.is_narrow or len(catalog) < _NARROW * len(self.catalog)
        return replace(
            self, catalog=catalog, settings=settings, is_scoped=True, is_narrow=is_narrow
        )

    def with_live(self, live: Mapping[ServerName, StateInfo], rejection: Rejection | None) -> View:
        """The same snapshot with other live states."""
        view = replace(self, live=live, rejection=rejection)
        # None of these depends on live states. The engine makes such a view for each read, and
        # made again they would cost each of them some 0.4 us for every server.
        view.__dict__.update({name: getattr(self, name) for name in _SHARED})
        if "searcher" in self.__dict__:
            view.__dict__["searcher"] = self.searcher
        return view

    def snapshot(self) -> View:
        """The view with its live states copied, for use after the engine is closed."""
        return self.with_live(dict(self.live), self.rejection)

    def servers(self) -> tuple[ServerReport, ...]:
        """Every configured server, in the order of names."""
        found = self._computed.reports = self._for_all(_report, self._computed.reports)
        return found.all

    def general_notices(self) -> tuple[Notice, ...]:
        """Notices about the view as a whole."""
        rejected = (notices.rejected(self.rejection),) if self.rejection else ()
        lost = () if self.lost_at is None else (notices.lost(self.lost_at),)
        off = () if self.settings.enabled else (notices.switched_off(),)
        none = () if self.settings.servers else (notices.no_server(self.settings),)
        return (*rejected, *lost, *off, *none)

    def server(self, name: str) -> ServerReport:
        """The report of a server, by its exact name or by a unique one in another case.

        Raises:
            ServerNotFoundError: With the nearest names.
        """
        return self._find_server(name).report

    def server_settings(self, name: str) -> ServerSettings:
        """The settings of a server; the name is resolved as by `server`.

        Raises:
            ServerNotFoundError: With the nearest names.
        """
        return self._find_server(name).settings

    def search(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
        include_disabled: bool = False,
        query_vectors: Sequence[Vector] = (),
    ) -> SearchAnswer:
        """The tools that fit a query best, the best first.

        Args:
            query: Words, a tool's name, or both.
            server: Only this server's tools.
            tags: Only tools that carry all of these.
            limit: The most hits; the configured `search.limit` if None.
            include_disabled: Also tools that a rule disables; never those that are withheld.
            query_vectors: That of the query, and those of its clauses, to find tools by meaning.

        Raises:
            InputTooLongError: If `query`, `server` or `tags` are longer than any may be.
            ServerNotFoundError: If `server` is not configured.
        """
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None
        wanted = set(tags)

        def in_scope(entry: Entry) -> bool:
            is_tagged = not wanted or wanted.issubset(entry.verdict.tags)
            is_asked_for = is_tagged and (only is None or entry.tool.server == only)
            return is_asked_for and self._shows(entry)

        def accepts(entry: Entry) -> bool:
            return in_scope(entry) and _may_be_listed(entry, include_disabled=include_disabled)

        def is_hidden(entry: Entry) -> bool:
            return in_scope(entry) and not accepts(entry)

        asker = self._asker(query, query_vectors, limit)
        within = self._subset()
        answer = asker.answer(accepts, server=only, tags=frozenset(wanted), within=within)
        if not self.settings.enabled:
            return replace(answer, notices=(notices.switched_off(),))
        notes = [*self._outages(only), *self._held_back(only)]
        better = asker.better_hits(answer, is_hidden) if self._has_hidden(only) else ()
        first = [notices.hidden([self._hidden(hit.entry) for hit in better])] if better else []
        if answer.decision is Decision.NONE:

            def is_listed(entry: Entry) -> bool:
                return self._shows(entry) and _may_be_listed(
                    entry, include_disabled=include_disabled
                )

            fitting: tuple[Hit, ...] = ()
            if not better and (only or wanted):
                fitting = asker.answer(is_listed, within=within).hits
            first += self._reasons_for_nothing(only, wanted, fitting, is_hidden=bool(better))
        return replace(answer, notices=(*first, *notes))

    def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        """A server's tools, in the order of their names.

        Raises:
            ServerNotFoundError: If the server is not configured.
            ServerDisabledError: If it is switched off, unless `include_disabled`.
            UntrustedServerError: If it must not be started, unless `include_disabled`.
        """
        name = self.addresses.server(server)
        part = self.catalog.part(name)
        if not include_disabled:
            self._find_server(name).require_enabled()
        entries = tuple(
            e for e in part.entries if _may_be_listed(e, include_disabled=include_disabled)
        )
        notes = [*self._outages(name), *self._held_back(name)]
        if not entries and part.entries:
            notes.append(notices.hidden([self._hidden(entry) for entry in part.entries]))
        return ToolList(name, entries, tuple(notes))

    def find(self, server: str | None, tool: str) -> Entry:
        """The tool of that name, visible or not.

        Without a server, `tool` may name it too: `github:create_issue`, `github__create_issue`,
        `mcp__github__create_issue`, or a tool's name that only one server has.

        Raises:
            ServerNotFoundError: If `server` is given and not configured.
            ToolNotFoundError: With the nearest names.
            ToolAmbiguousError: If several servers have that tool.
        """
        with concerning(server, tool):
            return self.addresses.tool(server, tool)

    def details(self, server: str | None, tool: str) -> Entry:
        """The tool of that name, if it may be seen.

        Raises:
            NotFoundError: As `find`.
            ToolDisabledError: If a rule disables it; the rule is named.
            ServerDisabledError: If its server is switched off.
            UntrustedServerError: If its server must not be started.
        """
        entry = self.find(server, tool)
        if entry.is_visible:
            return entry
        with concerning(entry.tool.server, entry.tool.name):
            self._find_server(entry.tool.server).require_enabled()
        names = entry.tool.server, entry.tool.name, public_decider(entry.verdict)
        if not entry.is_withheld:
            raise ToolDisabledError(*names, detail=self.reason(entry))
        is_unpinned = entry.verdict.reason == "unpinned"
        command = "lock --check" if is_unpinned else f"review {entry.tool.server}"
        raise ToolWithheldError(*names, command=f"discovery {command}")

    def reason(self, entry: Entry | OfferingEntry) -> str:
        """Why a tool, a resource or a prompt has its verdict, in a few words."""
        rules, subject = _rules_of(self.settings, entry)
        return describe(entry.verdict, rules, subject=subject)

    def place(self, entry: Entry | OfferingEntry) -> str:
        """What decided its verdict, with the place in the configuration, for the owner."""
        return _place(self.settings, entry)

    def findings(self, entry: Entry) -> tuple[Finding, ...]:
        """The suspicious findings in the definition of a tool."""
        return self.catalog.part(entry.tool.server).found_in(entry.tool.upstream_name)

    def refusals(self) -> list[UntrustedServerError]:
        """The servers that must not be started, in the order of the settings."""
        return [error for server in self._servers if (error := server.refusal)]

    def owner_description(self, name: ServerName) -> str:
        """The owner's description of a server; empty while it waits for the owner's approval."""
        return self._find_server(name).owner_description

    def is_known(self, name: ServerName) -> bool:
        """Whether a server was ever listed with its current transport."""
        return self.catalog.part(name).listed_at is not None

    @cached_property
    def connectable(self) -> Mapping[ServerName, ServerSettings]:
        """The servers that may be started or reached, in the order of the settings."""
        return {s.settings.name: s.settings for s in self._servers if s.is_connectable}

    def require_connectable(self, name: str) -> ServerSettings:
        """The settings of a server that may be started or reached.

        Raises:
            ServerNotFoundError: If it is not configured.
            ConfigurationError: If its entry cannot be used.
            ServerDisabledError: If it is switched off.
            UntrustedServerError: If it must not be started.
        """
        server = self._find_server(name)
        server.require_connectable()
        return server.settings

    def _find_server(self, name: str) -> ConfiguredServer:
        return self._server(self.addresses.server(name))

    def _server(self, name: ServerName) -> ConfiguredServer:
        live, server = self.live.get(name), self._configured.get(name)
        if server is None or server.live != live:
            settings, rules = self.settings.by_name[name], self.settings.server_rules
            server = ConfiguredServer(settings, self.catalog.part(name), rules, live)
            self._configured[name] = server
        return server

    @cached_property
    def _configured(self) -> dict[ServerName, ConfiguredServer]:
        """The servers by name, each as of its last live state."""
        return {}

    @cached_property
    def _computed(self) -> _Computed:
        return _Computed()

    def _for_all(
        self, compute: Callable[[ConfiguredServer], T], known: PerServer[T] | None
    ) -> PerServer[T]:
        known = known or PerServer(tuple(sorted(self.settings.by_name)))
        return known.updated(self.live, lambda name: compute(self._server(name)))

    @property
    def _servers(self) -> Iterator[ConfiguredServer]:
        """Every configured server, in the order of the settings."""
        return map(self._server, self.settings.by_name)

    @cached_property
    def addresses(self) -> AddressBook:
        """Finds servers and tools by the names that callers use."""
        # A bound method would make a reference cycle and keep an unused view alive.
        place = partial(_place, self.settings)
        naming = self.settings.server.naming
        return AddressBook(self.catalog, self.settings.by_name.keys(), place, naming)

    @cached_property
    def offerings(self) -> OfferingBook:
        """Finds resources, templates and prompts by the addresses that callers use."""
        place, rules = partial(_place, self.settings), self.settings.resource_rules
        return OfferingBook(self.catalog, self.addresses, rules, place, self.settings)

    def search_offerings(
        self,
        query: str,
        kinds: Collection[SearchKind],
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> tuple[OfferingHit, ...]:
        """The resources (with templates) and prompts that fit a query, the best first.

        Args:
            query: As for `search`.
            kinds: Which; `tool` is ignored.
            server: Only this server's.
            tags: Only those that carry all of these.
            limit: The most hits; the configured `search.limit` if None.

        Raises:
            InputTooLongError, ServerNotFoundError: As `search`.
        """
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None
        wanted = set(tags)

        def accepts(entry: OfferingEntry) -> bool:
            offering = entry.offering
            is_in_scope = only in (None, offering.server) and wanted.issubset(entry.verdict.tags)
            return entry.is_visible and is_in_scope and offering.subject in kinds

        settings = self.settings.search
        found = self.offerings.index.search(
            query,
            accepts,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
        )
        address = self.offerings.address
        return tuple(OfferingHit(e, address(e.offering), relevance) for e, relevance in found)

    def resource(self, server: str | None, uri: str) -> ResourceTarget:
        """What a URI leads to, if it may be read.

        Raises:
            NotFoundError: As `OfferingBook.resource`.
            ResourceDisabledError: If a rule disables it; the rule is named.
            ServerDisabledError: If its server is switched off.
            UntrustedServerError: If its server must not be started.
        """
        target = self.offerings.resource(server, uri)
        self._require_visible(target.entry, target.uri, ResourceDisabledError)
        return target

    def template(self, server: str | None, address: str) -> OfferingEntry | None:
        """The resource template of that address, if it may be seen; None if there is none.

        Raises:
            ResourceDisabledError, ServerDisabledError, UntrustedServerError: As `resource`.
        """
        entry = self.offerings.template(server, address)
        if entry:
            self._require_visible(entry, entry.offering.identifier, ResourceDisabledError)
        return entry

    def list_offerings(
        self, kind: OfferingKind, server: str | None = None, *, include_disabled: bool = False
    ) -> OfferingList:
        """The resources, the templates or the prompts, in the order of servers and identifiers.

        Args:
            kind: Which of them.
            server: Only those of this server.
            include_disabled: Also those that a rule disables; never those that are withheld.

        Raises:
            ServerNotFoundError: If `server` is not configured.
            ServerDisabledError, UntrustedServerError: As `list_tools`.
        """
        only = None if server is None else self.addresses.server(server)
        if only and not include_disabled:
            self._find_server(only).require_enabled()
        entries = self.offerings.visible(kind, only)
        if include_disabled:
            entries = tuple(
                entry
                for part in self._parts(only)
                for entry in part.of_kind(kind)
                if entry.is_visible or not entry.is_withheld
            )
        return OfferingList(entries, (*self._outages(only), *self._held_back(only)))

    def prompt(self, server: str | None, name: str) -> OfferingEntry:
        """The prompt of that name, if it may be used.

        Raises:
            NotFoundError: As `OfferingBook.prompt`.
            PromptDisabledError: If a rule disables it; the rule is named.
            ServerDisabledError, UntrustedServerError: As `resource`.
        """
        entry = self.offerings.prompt(server, name)
        self._require_visible(entry, entry.offering.identifier, PromptDisabledError)
        return entry

    def _require_visible(
        self,
        entry: OfferingEntry,
        name: str,
        error: type[ResourceDisabledError | PromptDisabledError],
    ) -> None:
        server, verdict = entry.offering.server, entry.verdict
        with concerning(server, name):
            self._find_server(server).require_enabled()
        if entry.is_visible:
            return
        command = ""
        if entry.is_withheld:
            is_unpinned = verdict.reason == "unpinned"
            command = "discovery lock --check" if is_unpinned else f"discovery review {server}"
        subject = entry.offering.subject
        detail = "" if entry.is_withheld else self.place(entry)
        reason = public_decider(verdict, subject=subject)
        raise error(server, name, reason, detail=detail, command=command)

    def _subset(self) -> Subset | None:
        """The tools of a narrow view in the index; None if all of it is searched."""
        if not self.is_narrow:
            return None
        known = self._computed.subset
        if known is None or known[0] is not self.searcher:
            known = self._computed.subset = self.searcher, self.searcher.subset(self._shows)
        return known[1]

    def _shows(self, entry: Entry) -> bool:
        """Whether a tool that was found is one of this view."""
        tool = entry.tool
        return not self.is_scoped or self.catalog.get(tool.server, tool.name) is not None

    def _hidden(self, entry: Entry) -> notices.HiddenTool:
        return notices.HiddenTool(entry.key.label, public_decider(entry.verdict), self.place(entry))

    def _asker(self, query: str, vectors: Sequence[Vector], limit: int | None) -> QueryRunner:
        settings, searcher = self.settings.search, self.searcher
        return QueryRunner(
            searcher.analyze(query),
            searcher,
            self.vectors.compare(vectors) if self.vectors else None,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
            usage=self.usage,
        )

    def _outages(self, only: ServerName | None) -> list[Notice]:
        """Notices about servers in scope whose tools are missing or stale."""
        if only:
            return [notice] if (notice := self._server(only).outage) else []
        found = self._computed.outages = self._for_all(_outage, self._computed.outages)
        return [notice for notice in found.all if notice]

    def _held_back(self, only: ServerName | None) -> list[Notice]:
        """Notices about withheld tools of the servers in scope."""
        notes = [] if self.lost_at is None else [notices.lost(self.lost_at)]
        if only:
            return [*notes, *_held_back_of([self.catalog.part(only)])]
        if self._computed.held_back is None:
            self._computed.held_back = tuple(_held_back_of(self.catalog.parts.values()))
        return [*notes, *self._computed.held_back]

    def _has_hidden(self, only: ServerName | None) -> bool:
        """Whether the servers in scope have a tool that is not visible."""
        if only:
            return self.catalog.part(only).has_hidden
        if self._computed.has_hidden is None:
            self._computed.has_hidden = any(p.has_hidden for p in self.catalog.parts.values())
        return self._computed.has_hidden

    def _parts(self, only: ServerName | None) -> Iterable[ServerPart]:
        """The catalog parts of the servers in scope."""
        return [self.catalog.part(only)] if only else self.catalog.parts.values()

    def _reasons_for_nothing(
        self, only: ServerName | None, tags: set[str], fitting: Sequence[Hit], *, is_hidden: bool
    ) -> list[Notice]:
        """Why no tool is found; servers that are missing come first.

        Args:
            only: The server that the search is limited to.
            tags: The tags that it is limited to.
            fitting: What is found without these limits.
            is_hidden: Whether a notice about hidden tools that fit was added already.
        """
        if not self.settings.servers:
            return [notices.no_server(self.settings)]
        reasons = []
        if fitting:
            first = fitting[0].entry.key.label
            reasons = [notices.filtered(len(fitting), first, only, tags)]
        is_known = any(part.visible_count for part in self._parts(only))
        if missing := self._missing(only, is_none_known=not (is_known or is_hidden)):
            return [missing, *reasons]
        if is_hidden or fitting:
            return reasons
        return [notices.no_match(tags) if is_known else notices.no_enabled_tool(only)]

    def _missing(self, only: ServerName | None, *, is_none_known: bool) -> Notice | None:
        """Of how many of the servers in question no tool is known; None if they all were listed."""
        asked = [self._server(only)] if only else self._servers
        usable = [server for server in asked if server.is_enabled]
        unheard = [server for server in usable if server.is_unlisted]
        if not unheard:
            return None
        if is_none_known:
            return notices.nothing_known(only)
        down = sum(server.is_unavailable for server in unheard)
        return notices.incomplete(len(usable), starting=len(unheard) - down, unavailable=down)


def _place(settings: Settings, entry: Entry | OfferingEntry) -> str:
    rules, subject = _rules_of(settings, entry)
    return decider(entry.verdict, rules, subject=subject)


def _rules_of(settings: Settings, entry: Entry | OfferingEntry) -> tuple[tuple[Rule, ...], Subject]:
    """The rules that judge it, and what they call it."""
    if isinstance(entry, Entry):
        return settings.tool_rules, "tool"
    subject = entry.offering.subject
    return (settings.prompt_rules if subject == "prompt" else settings.resource_rules), subject


def _report(server: ConfiguredServer) -> ServerReport:
    return server.report


def _outage(server: ConfiguredServer) -> Notice | None:
    return server.outage


def _held_back_of(parts: Iterable[ServerPart]) -> Iterator[Notice]:
    for part in parts:
        waiting = part.held_back(FOR_REVIEW), part.offerings_held_back(FOR_REVIEW)
        if any(waiting):
            yield notices.review(part.server, *waiting)
        unpinned = part.held_back({"unpinned"}), part.offerings_held_back({"unpinned"})
        if any(unpinned):
            yield notices.unpinned(part.server, *unpinned)


def _may_be_listed(entry: Entry, *, include_disabled: bool) -> bool:
    return entry.is_visible or (include_disabled and not entry.is_withheld)
