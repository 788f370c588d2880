"""An immutable snapshot to answer from: settings, catalog and searcher.

Every read of the engine, the server and the command line is answered by the current view, without
waiting. `Entry.is_visible` alone decides what an agent may see, and every answer names what is
missing from it (`Notice`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, Entry, OfferingEntry
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import (
    ToolDisabledError,
    ToolWithheldError,
    UntrustedServerError,
    concerning,
)
from discovery_engine.rules.rule import public_decider
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.state import StateInfo
from discovery_engine.view.addresses import AddressBook
from discovery_engine.view.notices import (
    Notice,
    RegistryOutage,
    Rejection,
    public_reason,
    verdict_place,
    verdict_reason,
)
from discovery_engine.view.offering_addresses import (
    OfferingAccess,
    OfferingBook,
    OfferingList,
    ResourceTarget,
)
from discovery_engine.view.search_answers import (
    AnswerNotices,
    NoticeMemo,
    OfferingHit,
    SearchAnswer,
    SearchKind,
    SearchMemo,
    ToolSearch,
    may_be_listed,
)
from discovery_engine.view.status import ConfiguredServers, ServerMemo, ServerReport

if TYPE_CHECKING:
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.tools.findings import Finding
    from discovery_engine.view.scoped_catalog import UriGuard

    OpenSearcher: TypeAlias = Callable[[], Searcher]
    OpenBook: TypeAlias = Callable[[], ExampleBook]
else:  # `help(View)` needs these names; importing the search for them would slow every start
    OpenSearcher, OpenBook, ToolVectors, UriGuard = Callable, Callable, object, object


_SHARED = ("addresses", "offerings", "connectable", "_memos")


class _Memos(Struct):
    servers: ServerMemo = field(default_factory=ServerMemo)
    notices: NoticeMemo = field(default_factory=NoticeMemo)
    search: SearchMemo = field(default_factory=SearchMemo)


class ToolList(Struct, frozen=True):
    """The tools of one server, and notices about missing ones."""

    server: ServerName
    entries: tuple[Entry, ...]
    notices: tuple[Notice, ...] = ()


class ToolSelection(Struct, frozen=True):
    """Tools of several servers, and notices about missing ones."""

    entries: tuple[Entry, ...]
    notices: tuple[Notice, ...] = ()


class View(Struct, frozen=True, dict=True):
    """A snapshot of settings, catalog and live states."""

    settings: Settings
    catalog: Catalog
    open_searcher: OpenSearcher
    """Opens the searcher over `catalog`; called on the first search."""
    live: Mapping[ServerName, StateInfo] = field(default_factory=lambda: MappingProxyType({}))
    """The live states of the servers used so far; the states of others follow from the catalog.

    Computed for the servers in scope only, so that the cost of a call does not depend on the number
    of servers."""

    rejection: Rejection | None = None
    """The errors of the present configuration files; None if `settings` are the present ones."""
    lost_at: float | None = None
    """Unix time in seconds at which a loss of decisions was noticed; None if there is no loss."""
    outage: RegistryOutage | None = None
    """The outage of the shared registry, which may make the catalog stale; None if it answers."""
    vectors: ToolVectors | None = None
    """The vectors of tools; None if search is by words only."""
    usage: Mapping[ToolKey, float] = field(default_factory=lambda: MappingProxyType({}))
    """The share of uses of each tool, from 0 to 1; empty unless `search.learn` is set."""
    open_book: OpenBook | None = None
    """Opens the typical requests of tools; None to use only those of the owner."""
    whole: View | None = None
    """The view of which this one shows a part; None if it shows everything."""
    is_for_owner: bool = True
    """True if it includes information for the owner alone: errors in the configuration files, the
    places of rules, and anything about items that its clients do not see."""
    guards: tuple[UriGuard, ...] = ()
    """Guards that keep the resource templates of a scope from reaching resources outside of it."""

    @cached_property
    def searcher(self) -> Searcher:
        return self.open_searcher()

    @property
    def book(self) -> ExampleBook:
        """The typical requests by which search finds tools."""
        if self.open_book:
            return self.open_book()
        from discovery_engine.search.examples.book import OWN_EXAMPLES  # noqa: PLC0415 - as above

        return OWN_EXAMPLES

    def within(self, catalog: Catalog, settings: Settings, *guards: UriGuard) -> View:
        """Return a view of the part of the catalog that a scope shows; the searcher is shared.

        Args:
            catalog: That part.
            settings: The settings within the scope.
            guards: Guards of resource templates, added to those of this view.
        """
        whole, guards = self.whole or self, (*self.guards, *guards)
        return replace(self, catalog=catalog, settings=settings, whole=whole, guards=guards)

    def with_live(
        self,
        live: Mapping[ServerName, StateInfo],
        rejection: Rejection | None,
        outage: RegistryOutage | None = None,
    ) -> View:
        """Return the same snapshot with other live states, rejection and outage."""
        rejection = rejection if self.is_for_owner else None
        view = replace(self, live=live, rejection=rejection, outage=outage)
        # None of these depends on live states. The engine makes such a view for each read, and
        # computing them again would take 0.4 us for each server.
        view.__dict__.update({name: getattr(self, name) for name in _SHARED})
        if "searcher" in self.__dict__:
            view.__dict__["searcher"] = self.searcher
        return view

    def snapshot(self) -> View:
        """Return the view with a copy of its live states, for use after the engine is closed."""
        return self.with_live(dict(self.live), self.rejection, self.outage)

    def servers(self) -> tuple[ServerReport, ...]:
        """Return a report of every configured server, sorted by name."""
        return self._servers.reports()

    def general_notices(self) -> tuple[Notice, ...]:
        """Return the notices about the view as a whole."""
        return self._notices.general()

    def unusable_notices(self) -> tuple[Notice, ...]:
        """Return a notice for each server that lists unusable definitions."""
        return self._notices.unusable(None)

    def server(self, name: str) -> ServerReport:
        """Return the report of a server, by its name or by one that differs in case only.

        Raises:
            ServerNotFoundError: If there is no such server; the error suggests the nearest names.
        """
        return self._servers.report(self.addresses.server(name))

    def server_settings(self, name: str) -> ServerSettings:
        """Return the settings of a server; the name is resolved as in `server`.

        Raises:
            ServerNotFoundError: If there is no such server; the error suggests the nearest names.
        """
        return self._servers.find(name).settings

    def search(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        any_tag: bool = False,
        limit: int | None = None,
        include_disabled: bool = False,
        query_vectors: Sequence[Vector] = (),
        order: Sequence[ToolKey] = (),
    ) -> SearchAnswer:
        """Search for the tools that fit a query best, the best first.

        Args:
            query: Words, a tool's name, or both.
            server: The only server to search; None for all.
            tags: Tags that each hit must have, all of them.
            any_tag: True if one of `tags` is enough.
            limit: The most hits; the configured `search.limit` if None.
            include_disabled: True to include tools that a rule disables; withheld tools are never
                included.
            query_vectors: The vectors of the query and then of its clauses, to find tools by
                meaning.
            order: The order of some tools, which takes the place of theirs.

        Raises:
            InputTooLongError: If `query`, `server` or `tags` exceed their limits.
            ServerNotFoundError: If `server` is not configured.
        """
        return self._tool_search.search(
            query,
            server=server,
            tags=tags,
            any_tag=any_tag,
            limit=limit,
            include_disabled=include_disabled,
            query_vectors=query_vectors,
            order=order,
        )

    def search_everything(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
        query_vectors: Sequence[Vector] = (),
    ) -> SearchAnswer:
        """Search among all tools, including disabled and withheld ones; for the owner alone.

        Args:
            query: See `search`, also for the other arguments.
            server: The only server to search; None for all.
            tags: Tags that each hit must have, all of them.
            limit: The most hits; the configured `search.limit` if None.
            query_vectors: The vectors of the query.

        Raises:
            InputTooLongError, ServerNotFoundError: See `search`.
        """
        search = self._tool_search.search_everything
        return search(query, server=server, tags=tags, limit=limit, query_vectors=query_vectors)

    def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        """List a server's tools, sorted by name; with `include_disabled` also disabled ones.

        Raises:
            ServerNotFoundError: If the server is not configured.
            ServerDisabledError: If it is switched off, unless `include_disabled`.
            UntrustedServerError: If it must not be started, unless `include_disabled`.
        """
        name = self.addresses.server(server)
        part = self.catalog.part(name)
        if not include_disabled:
            self._servers.get(name).require_enabled()
        entries = tuple(
            e for e in part.entries if may_be_listed(e, include_disabled=include_disabled)
        )
        notes = self._notices.missing(name)
        if not entries and part.entries:
            notes.append(self._notices.hidden(part.entries))
        return ToolList(name, entries, tuple(notes))

    def all_tools(
        self,
        *,
        tags: Collection[str] = (),
        any_tag: bool = False,
        include_disabled: bool = False,
    ) -> ToolSelection:
        """List the tools of all servers, sorted by server and name.

        Args:
            tags: Tags that each tool must have, all of them.
            any_tag: True if one of `tags` is enough.
            include_disabled: True to include tools that a rule disables; withheld tools are never
                included.
        """
        selection = [
            entry
            for entry in self.catalog
            if may_be_listed(entry, include_disabled=include_disabled)
            and entry.verdict.carries(tags, any_tag=any_tag)
        ]
        entries = tuple(sorted(selection, key=lambda entry: entry.key))
        missing = self._notices.missing(None)
        if not self.settings.servers:
            missing += self._notices.general()
        missing += [notice for notice in self.unusable_notices() if notice not in missing]
        return ToolSelection(entries, tuple(missing))

    def find(self, server: str | None, tool: str) -> Entry:
        """Return the tool of that name, visible or not.

        Without a server, `tool` may include it: `github:create_issue`, `github__create_issue`,
        `mcp__github__create_issue`, or a tool's name that only one server has.

        Raises:
            ServerNotFoundError: If `server` is given and not configured.
            ToolNotFoundError: If there is no such tool; the error suggests the nearest names.
            ToolAmbiguousError: If several servers have a tool of that name.
        """
        with concerning(server, tool):
            return self.addresses.tool(server, tool)

    def details(self, server: str | None, tool: str) -> Entry:
        """Return the tool of that name if it is visible.

        Raises:
            NotFoundError: See `find`.
            ToolDisabledError: If a rule disables the tool; the error names the rule.
            ToolWithheldError: If the tool waits for a review, or differs from the lock file.
            ServerDisabledError: If its server is switched off.
            UntrustedServerError: If its server must not be started.
        """
        entry = self.find(server, tool)
        if entry.is_visible:
            return entry
        with concerning(entry.tool.server, entry.tool.name):
            self._servers.find(entry.tool.server).require_enabled()
        names = entry.tool.server, entry.tool.name, public_decider(entry.verdict)
        if not entry.is_withheld:
            raise ToolDisabledError(*names, detail=self.reason(entry))
        is_unpinned = entry.verdict.reason == "unpinned"
        command = "config lock --check" if is_unpinned else f"review {entry.tool.server}"
        raise ToolWithheldError(*names, command=f"discovery {command}")

    def reason(self, entry: Entry | OfferingEntry) -> str:
        """Explain the verdict on a tool, a resource or a prompt in a few words."""
        if not self.is_for_owner:
            return public_reason(entry)
        return verdict_reason(self.settings, entry)

    def place(self, entry: Entry | OfferingEntry) -> str:
        """Name the rule or setting behind a verdict, and its place in the file, for the owner."""
        return verdict_place(self.settings, entry)

    def findings(self, entry: Entry) -> tuple[Finding, ...]:
        """Return the suspicious findings in the definition of a tool."""
        return self.catalog.part(entry.tool.server).found_in(entry.tool.upstream_name)

    def refusals(self) -> list[UntrustedServerError]:
        """Return the errors of servers that must not be started, in the order of the settings."""
        return [error for server in self._servers if (error := server.refusal)]

    def owner_description(self, name: ServerName) -> str:
        """Return the owner's description of a server; empty while the server awaits approval."""
        return self._servers.find(name).owner_description

    def is_known(self, name: ServerName) -> bool:
        """Return whether a server was ever listed with its present transport."""
        return self.catalog.part(name).listed_at is not None

    def unlisted(self, names: Iterable[ServerName]) -> list[ServerName]:
        """Return those of the named servers that are enabled and were never listed."""
        return [name for name in names if self.settings.enabled and self._is_unlisted(name)]

    def _is_unlisted(self, name: ServerName) -> bool:
        settings = self.server_settings(name)
        if settings.problem or not settings.enabled:
            return False
        part = self.catalog.parts.get(name)
        if part is None:
            return True
        return part.verdict.enabled and part.listed_at is None and part.failure is None

    @cached_property
    def connectable(self) -> Mapping[ServerName, ServerSettings]:
        """The servers that may be started or reached, in the order of the settings."""
        return {s.settings.name: s.settings for s in self._servers if s.is_connectable}

    def require_connectable(self, name: str) -> ServerSettings:
        """Return the settings of a server that may be started or reached.

        Raises:
            ServerNotFoundError: If the server is not configured.
            ConfigurationError: If its entry is not usable.
            ServerDisabledError: If it is switched off.
            UntrustedServerError: If it must not be started.
        """
        server = self._servers.find(name)
        server.require_connectable()
        return server.settings

    @cached_property
    def addresses(self) -> AddressBook:
        """The book that finds servers and tools by the names that callers use."""
        # A bound method would make a reference cycle and keep an unused view alive.
        place = partial(verdict_place, self.settings)
        naming = self.settings.server.naming
        return AddressBook(self.catalog, self.settings.by_name.keys(), place, naming)

    @cached_property
    def offerings(self) -> OfferingBook:
        """The book that finds resources, templates and prompts by their addresses."""
        place, rules = partial(verdict_place, self.settings), self.settings.resource_rules
        return OfferingBook(
            self.catalog, self.addresses, rules, place, self.settings, guards=self.guards
        )

    def search_offerings(
        self,
        query: str,
        kinds: Collection[SearchKind],
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        any_tag: bool = False,
        limit: int | None = None,
    ) -> tuple[OfferingHit, ...]:
        """Search for resources (including templates) and prompts, the best first.

        Args:
            query: See `View.search`.
            kinds: The kinds to find; `tool` is ignored.
            server: The only server to search; None for all.
            tags: Tags that each hit must have, all of them.
            any_tag: True if one of `tags` is enough.
            limit: The most hits; the configured `search.limit` if None.

        Raises:
            InputTooLongError, ServerNotFoundError: See `View.search`.
        """
        search = self._offering_access.search
        return search(query, kinds, server=server, tags=tags, any_tag=any_tag, limit=limit)

    def resource(self, server: str | None, uri: str) -> ResourceTarget:
        """Return the target of a URI if it may be read.

        Raises:
            NotFoundError: See `OfferingBook.resource`.
            ResourceDisabledError: If a rule disables it; the error names the rule.
            ServerDisabledError: If its server is switched off.
            UntrustedServerError: If its server must not be started.
        """
        return self._offering_access.resource(server, uri)

    def template(self, server: str | None, address: str) -> OfferingEntry | None:
        """Return the visible resource template of that address; None if there is no template.

        Raises:
            ResourceDisabledError, ServerDisabledError, UntrustedServerError: See `resource`.
        """
        return self._offering_access.template(server, address)

    def list_offerings(
        self, kind: OfferingKind, server: str | None = None, *, include_disabled: bool = False
    ) -> OfferingList:
        """List the resources, templates or prompts, sorted by server and identifier.

        Args:
            kind: The kind to list.
            server: The only server whose items are listed; None for all.
            include_disabled: True to include items that a rule disables; withheld ones are never
                included.

        Raises:
            ServerNotFoundError: If `server` is not configured.
            ServerDisabledError, UntrustedServerError: See `list_tools`.
        """
        access = self._offering_access
        return access.of_kind(kind, server, include_disabled=include_disabled)

    def prompt(self, server: str | None, name: str) -> OfferingEntry:
        """Return the prompt of that name if it may be used.

        Raises:
            NotFoundError: See `OfferingBook.prompt`.
            PromptDisabledError: If a rule disables it; the error names the rule.
            ServerDisabledError, UntrustedServerError: See `resource`.
        """
        return self._offering_access.prompt(server, name)

    @cached_property
    def _memos(self) -> _Memos:
        return _Memos()

    @cached_property
    def _servers(self) -> ConfiguredServers:
        return self._servers_with(self.live)

    def _servers_with(self, live: Mapping[ServerName, StateInfo]) -> ConfiguredServers:
        whole = self.whole._servers_with(live) if self.whole else None  # noqa: SLF001 - a view
        memo = self._memos.servers
        return ConfiguredServers(self.settings, self.catalog, self.addresses, live, memo, whole)

    @cached_property
    def _notices(self) -> AnswerNotices:
        memo = self._memos.notices
        return AnswerNotices(
            self.settings,
            self.catalog,
            self._servers,
            self.rejection,
            self.lost_at,
            self.outage,
            memo,
            is_for_owner=self.is_for_owner,
        )

    @cached_property
    def _tool_search(self) -> ToolSearch:
        return ToolSearch(
            self.settings,
            self.catalog,
            self.addresses,
            self.searcher,
            self.vectors,
            self.usage,
            self._notices,
            self._memos.search,
        )

    @property
    def _offering_access(self) -> OfferingAccess:
        return OfferingAccess(
            self.settings,
            self.catalog,
            self.addresses,
            self.offerings,
            self._servers,
            self._notices,
        )
