"""Searches and looks up entries in all sources of the marketplace; installs nothing.

Synced sources are searched in their local copies while package managers are queried. If one fails,
the results of the others are still returned. Each page reports the age of the copies and the
problems of sources.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from discovery_engine._util.suggestions import nearest
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.marketplace_settings import MarketplaceSettings, MarketplaceSource
from discovery_engine.config.settings import Settings
from discovery_engine.errors import (
    Diagnostic,
    MarketplaceCursorError,
    MarketplaceEntryAmbiguousError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
)
from discovery_engine.marketplace.docker_catalog import DockerCatalog
from discovery_engine.marketplace.entry import MarketplaceEntry, merged_entries
from discovery_engine.marketplace.entry_details import (
    EntryDetails,
    at_version,
    entry_details,
    with_published,
)
from discovery_engine.marketplace.entry_search import EntrySearch, FoundEntry
from discovery_engine.marketplace.entry_store import FILE_NAME, MarketplaceStore
from discovery_engine.marketplace.mcp_registry import McpRegistry
from discovery_engine.marketplace.package_managers.manager_command import Environ, Prerequisites
from discovery_engine.marketplace.package_names import require_plain
from discovery_engine.marketplace.package_sources import KnownPackagesSource, live_sources
from discovery_engine.marketplace.source import LiveSource, SourceFailure, SyncedSource
from discovery_engine.marketplace.synchronizer import (
    Progress,
    SourceCopies,
    SourceReport,
    SourceState,
    is_complete,
    without_doubles,
)
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.limits import require_name, require_query

if TYPE_CHECKING:
    from discovery_engine.engine.core import Environment

_MAX_MARKETPLACE_RESULTS = 100  # results per page
_SHOWN_ENTRY_TIMEOUT = 3.0  # seconds to wait for a registry in `show`
_LONGEST_CURSOR = 9  # digits
_INCOMPLETE = "MARKETPLACE_COPY_INCOMPLETE"
_NO_SOURCES = Diagnostic(
    "MARKETPLACE_NO_SOURCES",
    "the marketplace has no sources: those of `marketplace.sources` are none, or disabled",
    "leave the key out for the official registry, npm and PyPI, or add `- type: mcp-registry`",
)
_CANDIDATES = 20  # search results among which the nearest names are sought


class MarketplacePage(Struct, frozen=True):
    """A page of results."""

    entries: tuple[FoundEntry, ...] = ()
    next_cursor: str | None = None
    sources: tuple[SourceState, ...] = ()
    """The sources that were searched."""
    problems: tuple[Diagnostic, ...] = ()
    """The problems of these sources. Entries may still come from their copies."""

    @property
    def is_partial(self) -> bool:
        """Return True if a source failed or is not fully copied, so that entries may be missing."""
        is_failing = any(state.is_failing for state in self.sources)
        return is_failing or any(problem.code == _INCOMPLETE for problem in self.problems)

    @property
    def synced_at(self) -> float | None:
        """Return the Unix time of the oldest copy; None if there is none."""
        times = [state.synced_at for state in self.sources if state.synced_at is not None]
        return min(times, default=None)


class Marketplace:
    """Searches all sources; made by `CurrentMarketplace`.

    Args:
        settings: The settings; their sources are in order of precedence.
        store: The store of the copies.
        synced: The sources that are copied.
        live: The sources that are queried for each search.
        environ: The environment whose PATH is searched for programs that start packages.
        clock: Returns Unix time in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        settings: MarketplaceSettings,
        store: MarketplaceStore,
        *,
        synced: Sequence[SyncedSource],
        live: Sequence[LiveSource] = (),
        environ: Environ,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._store = store
        self._synced = {source.settings.name: source for source in synced}
        self._live = {source.settings.name: source for source in live}
        self._order = [source.name for source in settings.active_sources]
        self._search = EntrySearch(settings, store)
        self._clock = clock
        self._prerequisites = Prerequisites(environ)
        self._copies = SourceCopies(settings, store, self._synced, clock=clock, sleep=sleep)

    async def search(
        self,
        query: str = "",
        *,
        limit: int = 20,
        cursor: str | None = None,
        sources: Collection[str] = (),
        offline: bool = False,
        on_progress: Progress | None = None,
    ) -> MarketplacePage:
        """Return the servers that match a query, the best first.

        An empty query lists all servers, the most recently updated first. Outdated copies are
        synced first, for a few seconds; a source without a copy is copied first.

        Args:
            query: The words to search for.
            limit: The size of the page, from 1 to 100.
            cursor: The `next_cursor` of the previous page; None for the first page.
            sources: The ids of the sources to search; empty for all.
            offline: True to send no request.
            on_progress: Called with the progress of syncing.

        Raises:
            InputTooLongError: If the query is too long.
            MarketplaceSourceNotFoundError: If there is no such source.
            MarketplaceCursorError: If the cursor is malformed.
            RegistryError: If the copies cannot be read.
        """
        require_query(query)
        source_names = self._wanted(sources)
        offset = _offset(cursor)
        limit = max(1, min(limit, _MAX_MARKETPLACE_RESULTS))
        problems: list[Diagnostic] = []
        live: list[MarketplaceEntry] = []
        async with open_task_group() as tasks:
            if not offline:
                if query.strip() and not offset:
                    for name in source_names:
                        if source := self._live.get(name):
                            tasks.start_soon(self._ask, source, query, limit, live, problems)
                problems += await self._copies.refresh(source_names, on_progress)
        results, following = await anyio.to_thread.run_sync(
            self._search.page, query, source_names, offset, limit, live
        )
        states = await self._copies.states(source_names, problems)
        source_problems = [problem for state in states for problem in self._problems_of(state)]
        return MarketplacePage(
            entries=tuple(results),
            next_cursor=None if following is None else str(following),
            sources=states,
            # Problems of the severity `info` are in `sources` alone.
            problems=without_doubles(
                problem for problem in source_problems if problem.severity != "info"
            )
            if source_names
            else (_NO_SOURCES,),
        )

    async def lookup(
        self, name: str, *, sources: Collection[str] = (), offline: bool = False
    ) -> MarketplaceEntry:
        """Return the entry with a name or id, or of the package with exactly that name.

        Args:
            name: The name, or `SOURCE:NAME` for the entry of one source.
            sources: The ids of the sources to search; empty for all.
            offline: True to send no request.

        Raises:
            InputTooLongError: If the name is too long.
            MarketplaceSourceNotFoundError: If there is no such source.
            MarketplaceEntryNotFoundError: If there is no such entry; suggests the nearest names.
            MarketplaceEntryAmbiguousError: If several servers have that name.
            InvalidPackageNameError: If the name has characters that look like others.
        """
        require_name("entry", name)
        require_plain(name)
        source_names = self._wanted(sources)
        source, _, rest = name.partition(":")
        if rest and source in source_names:
            source_names, name = [source], rest
        copied = await anyio.to_thread.run_sync(self._search.named, name, source_names)
        failures: list[Diagnostic] = []
        if not copied and not offline:
            copied = await self._newly_copied(name, source_names)
            copied = copied or await self._looked_up(name, source_names, failures)
        if not copied:
            error = MarketplaceEntryNotFoundError(name, await self._nearest(name, source_names))
            if not source_names:
                raise error.with_own_hint(f"{_NO_SOURCES.message}; {_NO_SOURCES.hint}")
            raise error.with_hint("; ".join(failure.sentence for failure in failures))
        if len(copied) > 1:
            origins = (f"{entry.origins[0].source}:{entry.name}" for entry in copied)
            raise MarketplaceEntryAmbiguousError(name, tuple(dict.fromkeys(origins)))
        return copied[0]

    async def show(
        self, name: str, *, version: str = "", sources: Collection[str] = (), offline: bool = False
    ) -> EntryDetails:
        """Return an entry with its warnings and the state of the programs that start it.

        Unless `offline`, its package manager is queried about its package. Raises the errors of
        `lookup`.

        Args:
            name: The name; see `lookup`.
            version: The version to show; empty for that of the entry.
            sources: The ids of the sources to search; empty for all.
            offline: True to send no request.
        """
        entry = await self.lookup(name, sources=sources, offline=offline)
        if not offline:
            entry = await self._as_published(entry, version)
        if version and version != entry.version:
            entry = at_version(entry, version)
        managers: dict[str, LiveSource] = {}
        if not offline:
            managers = {source.settings.type: source for source in self._live.values()}
        return await entry_details(entry, managers, self._prerequisites, now=self._clock())

    async def sync(
        self,
        sources: Collection[str] = (),
        *,
        force: bool = False,
        on_progress: Progress | None = None,
    ) -> tuple[SourceReport, ...]:
        """Sync the copies, also of sources that failed recently, and delete unused copies.

        Args:
            sources: The ids of the sources; empty for all.
            force: True to sync sources even if they were synced recently.
            on_progress: Called with the progress.

        Raises:
            MarketplaceSourceNotFoundError: If there is no such source.
        """
        reports = await self._copies.synchronize(
            self._wanted(sources), on_progress, force=force, tries_again=True
        )
        await anyio.to_thread.run_sync(self._store.drop_unused, self._search.keys)
        return tuple(reports)

    async def sources(self) -> tuple[SourceState, ...]:
        """Return the states of all sources, including the age of their copies."""
        return await self._copies.states(self._order, ())

    def close(self) -> None:
        self._store.close()

    # Searching

    async def _ask(
        self,
        source: LiveSource,
        query: str,
        limit: int,
        entries: list[MarketplaceEntry],
        problems: list[Diagnostic],
    ) -> None:
        try:
            entries += await source.search(query, limit=limit)
        except SourceFailure as failure:
            problems.append(failure.diagnostic(source.settings.name))

    # Looking up

    async def _as_published(self, entry: MarketplaceEntry, version: str) -> MarketplaceEntry:
        """Add all versions to an entry if its registry returns them within three seconds."""
        registry = self._synced.get(entry.origins[0].source)
        published: Sequence[MarketplaceEntry] = ()
        if isinstance(registry, McpRegistry):
            with anyio.move_on_after(_SHOWN_ENTRY_TIMEOUT), suppress(SourceFailure):
                published = await registry.published(entry.name)
        return with_published(entry, published, version)

    async def _newly_copied(self, name: str, sources: Sequence[str]) -> list[MarketplaceEntry]:
        """Copy the sources that have no complete copy, and return the entries of a name."""
        records = await self._copies.records()
        new = [source for source in sources if not is_complete(records.get(source))]
        if not new:
            return []
        await self._copies.refresh(new, None)
        return await anyio.to_thread.run_sync(self._search.named, name, sources)

    async def _looked_up(
        self, name: str, sources: Sequence[str], failures: list[Diagnostic]
    ) -> list[MarketplaceEntry]:
        """Look up a name in all live sources, and return the merged entries."""
        entries: list[MarketplaceEntry] = []
        for source_name in sources:
            if (source := self._live.get(source_name)) is None:
                continue
            try:
                entry = await source.lookup(name)
            except SourceFailure as failure:
                failures.append(failure.diagnostic(source_name))
                continue
            if entry is not None:
                entries.append(entry)
        return merged_entries(entries, self._search.rank)

    async def _nearest(self, name: str, sources: Sequence[str]) -> Sequence[str]:
        results, _ = await anyio.to_thread.run_sync(
            self._search.page, name, sources, 0, _CANDIDATES, ()
        )
        return nearest(name, [result.entry.name for result in results])

    def _problems_of(self, state: SourceState) -> Sequence[Diagnostic]:
        """Return the problems of a source that was searched, including an incomplete copy."""
        if state.problems or state.is_complete or state.name not in self._synced:
            return state.problems
        message = "it was not copied yet, so that nothing of it is found"
        if state.entries:
            message = f"only {state.entries:,} of its entries were copied so far"
        hint = "`discovery marketplace sync` copies the rest"
        return [Diagnostic(_INCOMPLETE, message, hint, state.name)]

    def _wanted(self, sources: Collection[str]) -> list[str]:
        """Return the names of sources in order of precedence; all if none is given.

        Raises:
            MarketplaceSourceNotFoundError: If there is no such source.
        """
        for name in sources:
            if name not in self._order:
                raise MarketplaceSourceNotFoundError(name, nearest(name, self._order))
        return [name for name in self._order if not sources or name in sources]


def _offset(cursor: str | None) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _LONGEST_CURSOR):
        raise MarketplaceCursorError
    return int(cursor)


def synced_sources(
    settings: MarketplaceSettings, secrets: SecretResolver, *, folder: str | None
) -> list[SyncedSource]:
    """Return the enabled sources that are copied; relative paths start at `folder`."""
    return [
        source
        for source_settings in settings.active_sources
        for source in _synced_source(source_settings, secrets, folder)
    ]


def _synced_source(
    settings: MarketplaceSource, secrets: SecretResolver, folder: str | None
) -> Iterator[SyncedSource]:
    match settings.type:
        case "mcp-registry":
            yield McpRegistry(settings, secrets, folder=folder)
        case "docker-catalog":
            yield DockerCatalog(settings, secrets, folder=folder)
        case "file":
            # It uses pydantic, which takes 0.1 s of CPU to import.
            from discovery_engine.marketplace.server_list import ServerList  # noqa: PLC0415

            yield ServerList(settings, secrets, folder=folder)
        case "npm" | "pypi":
            yield KnownPackagesSource(settings)


class CurrentMarketplace:
    """Makes the marketplace on first use, and a new one when the settings change."""

    def __init__(self, environment: Environment) -> None:
        self._store = MarketplaceStore(environment.data / FILE_NAME, clock=environment.clock)
        self._environment = environment
        self._made: tuple[object, Marketplace] | None = None

    def current(self, settings: Settings) -> Marketplace:
        """Return the marketplace for these settings."""
        key = (settings.marketplace, settings.path)
        if self._made is None or self._made[0] != key:
            self._made = (key, self._make(settings))
        return self._made[1]

    def close(self) -> None:
        self._store.close()

    def _make(self, settings: Settings) -> Marketplace:
        folder = os.path.dirname(settings.path) if settings.path else None  # noqa: PTH120 - "" stays
        environment = self._environment
        return Marketplace(
            settings.marketplace,
            self._store,
            synced=synced_sources(settings.marketplace, environment.secrets, folder=folder),
            live=live_sources(settings.marketplace, environment.variables),
            environ=environment.variables,
            clock=environment.clock,
        )
