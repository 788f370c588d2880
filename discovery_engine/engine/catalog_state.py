"""Holds the current view, and replaces it.

Readers use `view` and never wait. Each change runs under a lock: it builds the next catalog and its
searcher from the current view, replaces the view in one assignment, then stores the catalog.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.files.inputs import is_current
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.engine.catalog_store import CatalogStore, UnchangedListings
from discovery_engine.engine.ingestion.ingestor import Ingestor, Rulebook, carried_over
from discovery_engine.engine.ingestion.server_parts import (
    ListingResult,
    SharedParts,
    UnchangedParts,
    parse_listing,
    part_from_result,
    shared_parts,
    without_values,
)
from discovery_engine.engine.restore import has_unasked, newly_configured
from discovery_engine.engine.trust_store import TrustStore
from discovery_engine.errors import Diagnostic, RegistryError, UpstreamError
from discovery_engine.events import (
    CatalogChanged,
    EventBus,
    OfferingsChanged,
    RequestsWritten,
    ServerConnected,
    ServerFailed,
)
from discovery_engine.search.examples.book import ExampleBook, WrittenBook
from discovery_engine.search.usage import usage_shares
from discovery_engine.secrets.resolver import EnvironmentResolver, SecretResolver
from discovery_engine.store.codec import without_secrets
from discovery_engine.store.refresh_job import ClaimLostError
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.view.searcher_source import SearcherSource
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine.search.usage import UseCount
    from discovery_engine.search.vectors import ToolVectors
    from discovery_engine.store.refresh_job import RefreshClaim, SaveOutcome
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.effective_trust import Trust

logger = logging.getLogger(__name__)


class CatalogState:
    def __init__(
        self,
        store: Registry,
        events: EventBus,
        *,
        secrets: SecretResolver | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        claimed_only: bool = False,
    ) -> None:
        self._store = CatalogStore(store, claimed_only=claimed_only)
        self._events = events
        self._clock = clock
        self._lock = anyio.Lock()
        self._pending: dict[ServerName, ListingResult] = {}
        self._unchanged_parts = UnchangedParts()
        self._unchanged = UnchangedListings(self._store, self._changing, self._unchanged_part)
        settings = Settings()
        self._searcher = SearcherSource(Catalog(), settings)
        self.view = View(settings, Catalog(), self._searcher)
        environ = os.environ if environ is None else environ
        self._secrets = secrets or EnvironmentResolver(environ)
        self.trust_store = TrustStore(store, secrets=self._secrets, environ=environ, clock=clock)
        self._ingestor = Ingestor(Rulebook(settings))
        self._written: WrittenBook | None = None
        self._usage_reads = count(1)
        self._usage_read = 0
        """The number of the read that the view has."""
        self._logged: set[Diagnostic] = set()
        self.is_complete = True
        """True if servers can be started with the settings; after `restore_unchanged` not yet."""

    async def restore(self, settings: Settings) -> None:
        """Start from `settings` and the stored catalog of the last run."""
        try:
            stored, index = await self._store.load(settings)
        except RegistryError as error:
            logger.warning("The stored catalog cannot be loaded: %s", error)
            stored = index = None
        snapshot = stored or Snapshot(Settings(), Catalog())
        mended = newly_configured(snapshot.settings, snapshot.own.catalog, self._secrets)
        async with self._changing():
            await self._replace_settings(settings, snapshot, index)
            await self._clear_failures(mended)

    async def restore_unchanged(self, settings: Settings) -> bool:
        """Start from the stored catalog under remembered settings, which may lack transports.

        Returns False, and changes nothing, if something changed since they were stored.
        `complete_unchanged` or `apply_settings` has to follow before anything is started or
        reached.
        """
        try:
            stored, index = await self._store.load(settings)
            trust = await anyio.to_thread.run_sync(self.trust_store.load, settings)
        except RegistryError:  # `restore` reports it
            return False
        if stored is None or not _holds_for(stored := stored.own, settings, trust):
            return False
        catalog = stored.catalog
        if has_unasked(catalog) or newly_configured(settings, catalog, self._secrets):
            return False
        async with self._changing():
            self._set_trust(settings, trust)
            self._written = await self._store.written_book(self._written)
            self.is_complete = False
            parts, revision = stored.catalog.parts.values(), stored.catalog.revision + 1
            await self._replace_catalog(Catalog.of(parts, revision=revision), settings, index)
            await self._load_usage()
        return True

    async def complete_unchanged(self) -> bool:
        """Return whether servers can be started with what is remembered, as nothing has changed."""
        settings = self.view.settings
        if settings.remembered != "whole" or not await self.knows_decisions():
            return False
        self.is_complete = await anyio.to_thread.run_sync(is_current, settings.inputs)
        return self.is_complete

    async def forget_transports(self) -> None:
        """Start no server of the remembered files, which are invalid by now."""
        async with self._changing():
            settings = self.view.settings
            servers = tuple(
                server if server.is_registered else replace(server, transport=None)
                for server in settings.servers
            )
            settings = replace(settings, servers=servers, remembered="in part")
            self.view = replace(self.view, settings=settings)

    async def apply_settings(self, settings: Settings) -> None:
        """Use `settings` from now on, with all parts of the catalog that still apply.

        Raises:
            ConfigurationError: If their lock file is missing or damaged; nothing is changed then.
        """
        async with self._changing():
            await self._replace_settings(settings, self._known)

    async def apply_listing(self, result: ListingResult) -> bool:
        """Apply the listing of a server, together with those that are pending.

        The current rules apply, not those of when it was requested. Returns False and changes
        nothing if the server is no longer configured, or its transport differs.
        """
        with gc_pause.paused():  # the new objects are long-lived
            if not isinstance(result.outcome, UpstreamError):
                part = self.view.catalog.part(result.server.name)
                result = await anyio.to_thread.run_sync(parse_listing, result, part)
            self._pending[result.server.name] = result
            async with self._changing():
                await self._apply_pending()
                return self._current_settings(result) is not None

    async def apply_claimed(
        self, result: ListingResult, claim: RefreshClaim, *, due_in: float
    ) -> SaveOutcome | None:
        """Apply the listing of a server that a worker has claimed, store it, and end the claim.

        The server is due again in `due_in` seconds. None if it is no longer configured, or its
        transport differs. Unless it is stored, nothing is changed.

        Raises:
            RegistryError: If it cannot be stored.
        """
        old_part = self.view.catalog.part(result.server.name)
        if old_part.listed_at and await self._unchanged.end(result, claim, due_in=due_in):
            return "unchanged"
        result = await anyio.to_thread.run_sync(parse_listing, result, old_part)
        async with self._changing():

            def save() -> tuple[ServerPart, SaveOutcome] | None:
                self._accept_new([result], claim)
                if part := self._part(result):
                    return part, self._store.save_claimed(self._known, part, claim, due_in=due_in)
                return None

            try:
                saved = await anyio.to_thread.run_sync(save)
            except ClaimLostError:
                return "lost"
            if saved is None:
                return None
            part, outcome = saved
            old_part = self.view.catalog.part(part.server)
            # A new catalog costs by the number of all servers, and most listings change nothing.
            if outcome != "lost" and replace(part, listed_at=old_part.listed_at) != old_part:
                await self._replace_catalog(self.view.catalog.with_parts([part]))
            return outcome

    async def tended_servers(self) -> frozenset[ServerName]:
        """The servers that workers of the registry list in time."""
        return await self._store.tended_servers(self.view.settings)

    async def name_servers(self) -> bool:
        """Name the servers to all processes of the registry; returns whether it succeeded."""
        return await self._store.name_servers(self.view.settings)

    async def save_index(self) -> None:
        """Store the search index of the current catalog, or what the database lacks of it.

        No-op if it is stored, or must not be.

        It costs as much as listing some hundred tools, so call it after a round of listings.
        """
        source = self._searcher
        if source.is_in_database:
            await anyio.to_thread.run_sync(lambda: source().complete())
            return
        if source.is_stored:
            return
        settings = self.view.settings
        try:
            data = await anyio.to_thread.run_sync(_dumped, source)
        except Exception:
            logger.warning("The search index cannot be stored and is built again", exc_info=True)
            await self._rebuild(source)
            return
        if data is not None:
            source.is_stored = await self._store.save_index(settings, data)

    async def rebuild_index(self) -> None:
        """Build the search index of the tools again, and store it.

        Raises:
            RegistryError: If the database that is searched does not answer.
        """
        await self._rebuild(self._searcher)
        await self.save_index()

    async def _rebuild(self, source: SearcherSource) -> None:
        await anyio.to_thread.run_sync(source.rebuild)
        async with self._changing():
            if source is self._searcher:  # views keep the searcher that they have opened
                self.view = replace(self.view, open_searcher=source)

    async def set_vectors(self, vectors: ToolVectors | None) -> None:
        """Use these vectors for semantic search; None searches by words only."""
        async with self._changing():
            self.view = replace(self.view, vectors=vectors)

    async def count_use(self, key: ToolKey) -> None:
        """Count a call of a tool that was found; no-op unless `search.learn` is set."""
        settings = self.view.settings
        if not settings.search.learn:
            return
        # Without the lock: no decision and no listing waits for a count.
        await self._store.count_use(settings, key, at=self._clock())
        read = await self._read_usage()
        async with self._changing():
            self._replace_usage(*read)

    async def forget(self, names: Collection[ServerName] | None) -> int:
        """Delete the tools of servers (all with None); returns how many there were.

        Raises:
            RegistryError: If they cannot be deleted from the registry.
        """
        async with self._changing():
            parts = [
                ServerPart(part.server, verdict=part.verdict, connection=part.connection)
                for part in self.view.catalog.parts.values()
                if names is None or part.server in names
            ]
            count = len(self.view.catalog)
            await self._replace_catalog(self.view.catalog.with_parts(parts))
            await self._store.forget(self._known, names)
            await self._load_usage()
        return count - len(self.view.catalog)

    async def apply_requests(self) -> None:
        """Use the typical requests that were written meanwhile, here or by other processes."""
        async with self._changing():
            book = await self._store.written_book(self._written)
            if book != self._written:
                self._written = book
                await self._replace_catalog(self.view.catalog)
                self._events.publish(RequestsWritten())

    async def knows_decisions(self) -> bool:
        """Return whether all decisions so far are in effect."""
        return await anyio.to_thread.run_sync(self.trust_store.is_current)

    async def apply_decisions(self) -> bool:
        """Apply approvals and acceptances made meanwhile, here or by another process.

        Returns False and changes nothing if there are none.

        Raises:
            ConfigurationError: See `apply_settings`.
        """
        if not self.is_complete or await self.knows_decisions():
            return False
        async with self._changing():
            before = self._in_effect
            await self._replace_settings(self.view.settings, self._known)
            return self._in_effect != before

    async def apply_shared_parts(self) -> SharedParts:
        """Adopt the listings and failures that other processes have stored meanwhile."""
        if not self.is_complete:
            return SharedParts([], [])
        async with self._changing():
            before = self.view
            parts = await self._store.changed_parts(before.settings)
            if not parts:
                return SharedParts([], [])
            shared = await anyio.to_thread.run_sync(self._shared, parts)
            if shared.adopted:
                await self._replace_catalog(before.catalog.with_parts(shared.adopted))
            for part in shared.adopted:
                if part.failure != before.catalog.part(part.server).failure:
                    self._events.publish(_event_of(part))
            return shared

    def _shared(self, parts: Collection[ServerPart]) -> SharedParts:
        settings = self.view.settings
        named = Catalog.of(part for part in parts if part.server in settings.by_name)
        return shared_parts(
            parts,
            self.view.catalog,
            self._ingestor,
            fail_alike=self._store.is_of_this_machine,
            mended=newly_configured(settings, named, self._secrets),
        )

    @property
    def _known(self) -> Snapshot:
        return Snapshot(self.view.settings, self.view.catalog, self.trust_store.decided)

    @property
    def _in_effect(self) -> tuple[object, ...]:
        """The effect of the decisions; equal if nothing changed."""
        trust = self.trust_store.trust
        parts = tuple(map(id, self.view.catalog.parts.values()))
        return trust.refused, trust.decisions.approvals, trust.decisions.lost_at, parts

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Run one change under the lock; it completes even if its caller is cancelled."""
        async with self._lock:
            with anyio.CancelScope(shield=True):
                yield

    async def _clear_failures(self, servers: Iterable[ServerName]) -> None:
        """Delete the failures of servers, so that they are retried; needs the lock."""
        candidates = [self.view.catalog.part(name) for name in servers]
        parts = [replace(part, failure=None) for part in candidates if part.failure]
        if parts:
            await self._replace_catalog(self.view.catalog.with_parts(parts))
            await self._store.save_parts(self._known, parts, are_listed=False)

    async def _apply_pending(self) -> None:
        pending, self._pending = self._pending, {}
        await anyio.to_thread.run_sync(self._accept_new, pending.values())
        # In a thread, as the diff below: with 10,000 tools each blocked the loop for 40 ms.
        if parts := await anyio.to_thread.run_sync(self._parts, pending.values()):
            await self._replace_catalog(self.view.catalog.with_parts(parts))
            # What was known of a server that has failed may be older than what others have listed.
            for are_listed in (True, False):
                saved = [part for part in parts if (part.failure is None) is are_listed]
                if saved:
                    await self._store.save_parts(self._known, saved, are_listed=are_listed)

    def _unchanged_part(self, result: ListingResult) -> ServerPart | None:
        server = self._current_settings(result)
        if server is None or self.trust_store.decided is None:
            return None  # or what was accepted has to be read again first
        part = self.view.catalog.part(server.name)
        return self._unchanged_parts.part(server, part, result, self._ingestor)

    def _accept_new(
        self, pending: Iterable[ListingResult], claim: RefreshClaim | None = None
    ) -> None:
        """Accept new tools under the trust policy before they become visible.

        It blocks, and needs the lock.
        """
        listed = [
            listed._replace(server=server)
            for result in pending
            if (listed := result.listed_server) and (server := self._current_settings(result))
        ]
        settings = self.view.settings
        write = partial(self._store.accept_claimed, claim) if claim else None
        trust = self.trust_store.accept_listed(settings, listed, write)
        if trust is not self.trust_store.trust:
            self.trust_store.trust = trust
            self._ingestor = replace(self._ingestor, trust=trust)
            self.view = replace(self.view, lost_at=trust.decisions.lost_at)

    def _parts(self, pending: Iterable[ListingResult]) -> list[ServerPart]:
        return [part for result in pending if (part := self._part(result))]

    def _part(self, result: ListingResult) -> ServerPart | None:
        server = self._current_settings(result)
        if server is None:
            return None
        return part_from_result(server, self.view.catalog.part(server.name), result, self._ingestor)

    def _current_settings(self, result: ListingResult) -> ServerSettings | None:
        """The current settings of the server, if its transport is still the same."""
        server = self.view.settings.by_name.get(result.server.name)
        return server if server and server.transport == result.server.transport else None

    async def _replace_settings(
        self, settings: Settings, snapshot: Snapshot, index: bytes | None = None
    ) -> None:
        """Replace the settings and carry over `snapshot`; needs the lock."""
        trust = await anyio.to_thread.run_sync(self.trust_store.load, settings)
        self._set_trust(settings, trust)
        self._written = await self._store.written_book(self._written)
        parts = await anyio.to_thread.run_sync(self._carried_over, snapshot, settings)
        catalog = Catalog.of(parts, revision=snapshot.catalog.revision + 1)
        await self._replace_catalog(catalog, settings, index)
        self.is_complete = True  # not before: who finds it so uses the view at once
        is_elsewhere = catalog_key_of(snapshot.settings) != catalog_key_of(settings)
        saved = {} if is_elsewhere else snapshot.catalog.parts
        # Judged once more, nearly all are as before: to write 100,000 tools takes five seconds.
        changed = [part for part in parts if part != saved.get(part.server)]
        is_judged = snapshot.decided == self.trust_store.decided
        if settings is not snapshot.settings:
            # Other settings are stored as not judged by: the next start would judge all again.
            is_stored = without_secrets(snapshot.settings) == without_secrets(settings)
            is_same = is_judged and is_stored and not (changed or is_elsewhere)
            await self._store.save_settings(self._known, None if is_same else changed)
        elif changed or not is_judged:  # to save the settings costs by the number of all servers
            await self._store.save_parts(self._known, changed, are_listed=False)
        await self._load_usage()

    def _carried_over(self, snapshot: Snapshot, settings: Settings) -> list[ServerPart]:
        touched = self.trust_store.touched_since(snapshot.decided)
        carried = carried_over(snapshot, self._ingestor, touched)
        parts = zip(carried, settings.servers, strict=True)
        now = self._clock()
        return [without_values(part, server, self._secrets, now) for part, server in parts]

    def _set_trust(self, settings: Settings, trust: Trust) -> None:
        self.trust_store.trust = trust
        self._ingestor = Ingestor(Rulebook(settings), trust)
        self._unchanged_parts = UnchangedParts()
        self.view = replace(self.view, lost_at=trust.decisions.lost_at)

    async def _load_usage(self) -> None:
        """Load the use counts into the view; needs the lock."""
        self._replace_usage(*await self._read_usage())

    async def _read_usage(self) -> tuple[int, Mapping[ToolKey, UseCount]]:
        """Return the use counts with the number of this read; a later read is more current."""
        number = next(self._usage_reads)
        return number, await self._store.uses(self.view.settings)

    def _replace_usage(self, number: int, uses: Mapping[ToolKey, UseCount]) -> None:
        """Load the use counts into the view, unless a later read is there; needs the lock."""
        if number < self._usage_read:
            return
        self._usage_read = number
        if uses or self.view.usage:
            self.view = replace(self.view, usage=usage_shares(uses, self._clock()))

    async def _replace_catalog(
        self, catalog: Catalog, settings: Settings | None = None, index: bytes | None = None
    ) -> None:
        """Replace the catalog, and the settings if given; needs the lock.

        Both change at once, because the catalog refers to rules of the settings by index.
        """
        before = self.view
        view = replace(before, settings=settings or before.settings)
        book = ExampleBook.of(view.settings.search, self._written)
        source = SearcherSource(
            catalog,
            view.settings,
            book=book,
            stored=index,
            previous=self._searcher,
            documents=self._store.search_documents(view.settings),
        )
        self._searcher = source
        self.view = replace(view, catalog=catalog, open_searcher=source, open_book=lambda: book)
        self._log_slow_rules()
        if self._events.has_subscribers:
            diff = await anyio.to_thread.run_sync(before.catalog.diff, catalog)
            counts = len(diff.added), len(diff.removed), len(diff.changed)
            if diff:
                self._events.publish(CatalogChanged(catalog.revision, *counts))
            if diff.kinds:
                self._events.publish(OfferingsChanged(diff.kinds))

    def _log_slow_rules(self) -> None:
        for problem in self._ingestor.rulebook.problems:
            if problem not in self._logged:
                logger.warning("%s", problem)
        self._logged.update(self._ingestor.rulebook.problems)


class ReindexReport(Struct, frozen=True):
    tools: int
    """In the index."""
    vectors: int | None
    """Tools with a vector; None if no embedder is configured."""


def _holds_for(stored: Snapshot, settings: Settings, trust: Trust) -> bool:
    """Return whether a snapshot has all servers of the settings, judged by them and by `trust`."""
    return (
        stored.settings == without_secrets(settings)
        and stored.decided == trust.decisions.number
        and stored.catalog.parts.keys() == settings.by_name.keys()
    )


def _event_of(part: ServerPart) -> ServerConnected | ServerFailed:
    """Return the event for what another process found of a server."""
    if part.failure:
        return ServerFailed(part.server, part.failure.code, part.failure.message)
    return ServerConnected(part.server, len(part.entries), len(part.dropped))


def _dumped(source: SearcherSource) -> bytes | None:
    searcher = source()
    return searcher.dump() if searcher.is_storable else None
