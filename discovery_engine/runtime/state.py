"""The one place where the view of the moment is swapped, and remembered as it is.

Readers take `view` and never wait. A change is made under a lock, from the view as it is by then:
the next catalog, its searcher, one assignment, then the registry.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.files.location import catalog_key
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import Problem, RegistryError, UpstreamError
from discovery_engine.events import CatalogChanged, EventBus
from discovery_engine.registry.protocols import Snapshot
from discovery_engine.runtime.ingest import (
    Ingestor,
    ListingResult,
    Rulebook,
    carried_over,
    part_from_result,
    read,
)
from discovery_engine.runtime.restore import newly_configured, stored_index
from discovery_engine.runtime.trust_store import TrustStore
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher
from discovery_engine.search.usage import UseCount, usage_shares
from discovery_engine.secrets.resolver import EnvironmentResolver, SecretResolver
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.search.index.index import Index
    from discovery_engine.search.vectors import Vectors
    from discovery_engine.tools.model import ServerName, ToolKey

logger = logging.getLogger(__name__)

# A part of it may be opened long after the rest, so this can show at any use.
_UNREADABLE = "The search index that was kept cannot be read, and is made anew"


class CatalogState:
    def __init__(
        self,
        store: Registry,
        events: EventBus,
        *,
        secrets: SecretResolver | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self._swap = anyio.Lock()
        self._arrived: dict[ServerName, ListingResult] = {}
        settings = Settings()
        self.view = View(settings, Catalog(), partial(build_searcher, Catalog(), settings.search))
        environ = os.environ if environ is None else environ
        self._secrets = secrets or EnvironmentResolver(environ)
        self.trust_store = TrustStore(store, secrets=self._secrets, environ=environ, clock=clock)
        self._ingestor = Ingestor(Rulebook(settings))
        self._told: set[Problem] = set()
        self._kept: Index | None = None

    async def restore(self, settings: Settings) -> None:
        """Start from `settings` and what the last run knew under them."""
        name = _world_of(settings)
        try:
            world = await anyio.to_thread.run_sync(self._store.load, name)
            index = await anyio.to_thread.run_sync(stored_index, self._store, name)
        except RegistryError as error:
            logger.warning("Nothing could be recalled: %s", error)
            world = index = None
        world = world or Snapshot(Settings(), Catalog())
        mended = newly_configured(world.settings, world.catalog, self._secrets)
        async with self._swapping():
            await self._adopt(settings, world, index)
            await self._take_back_failures(mended)

    async def apply_settings(self, settings: Settings) -> None:
        """Answer from `settings` from now on, with whatever is still known under them.

        Raises:
            ConfigurationError: If they want a lock file that is missing or damaged; nothing is
                changed then.
        """
        async with self._swapping():
            await self._adopt(settings, self._known)

    async def apply_listing(self, told: ListingResult) -> bool:
        """Swap in what a server told, together with whatever else has arrived by then.

        The rules of this moment judge it, not those of the moment it was asked. Returns False,
        with nothing done, if the server is no longer configured, or is reached in another way.
        """
        with gc_pause.paused():  # what is made here stays
            if not isinstance(told.outcome, UpstreamError):
                known = self.view.catalog.part(told.server.name)
                told = await anyio.to_thread.run_sync(read, told, known)
            self._arrived[told.server.name] = told
            async with self._swapping():
                await self._take_arrived()
                return self._as_reached_now(told) is not None

    async def save_index(self) -> None:
        """Remember how to search the catalog of the moment; no-op if that is remembered.

        It costs as much as some hundred tools, so do it when a round of news is over.
        """
        view, indexes = self.view, self._store.indexes
        if indexes is None or view.searcher.index is self._kept:
            return
        try:
            data = await anyio.to_thread.run_sync(view.searcher.dump)
        except Exception:
            logger.warning(_UNREADABLE, exc_info=True)
            async with self._swapping():
                await self._index_anew()
            return
        save = partial(indexes.save_index, _world_of(view.settings), data)
        if await self._remember(save):
            self._kept = view.searcher.index

    async def set_vectors(self, vectors: Vectors | None) -> None:
        """Answer by meaning, too, with these vectors of the tools; by words alone with None."""
        async with self._swapping():
            self.view = replace(self.view, vectors=vectors)

    async def count_use(self, key: ToolKey) -> None:
        """Count that a tool was used which had been found; no-op unless the owner wants that."""
        async with self._swapping():
            if self.view.settings.search.learn:
                count = partial(self._store.count_use, self._world, key, at=self._clock())
                await self._remember(count)
                await self._recall_usage()

    async def forget(self, names: Collection[ServerName] | None) -> int:
        """Forget what servers (all with None) listed; returns how many tools were known.

        Raises:
            RegistryError: If the registry goes on remembering them.
        """
        async with self._swapping():
            parts = [
                ServerPart(part.server, verdict=part.verdict, connection=part.connection)
                for part in self.view.catalog.parts.values()
                if names is None or part.server in names
            ]
            known = len(self.view.catalog)
            await self._swap_in(self.view.catalog.with_parts(parts))
            await anyio.to_thread.run_sync(self._save_forgetting, names)
            await self._recall_usage()
        return known - len(self.view.catalog)

    async def reconsider(self) -> bool:
        """Heed what was approved or accepted meanwhile, here or by another process.

        Returns False, with nothing done, if there is nothing new.

        Raises:
            ConfigurationError: As `adopt`.
        """
        decisions = await anyio.to_thread.run_sync(self.trust_store.decisions, self.view.settings)
        if decisions == self.trust_store.trust.decisions:
            return False
        async with self._swapping():
            await self._adopt(self.view.settings, self._known)
        return True

    @property
    def _world(self) -> str:
        return _world_of(self.view.settings)

    @property
    def _known(self) -> Snapshot:
        return Snapshot(self.view.settings, self.view.catalog)

    @asynccontextmanager
    async def _swapping(self) -> AsyncIterator[None]:
        """The time of one change; it is finished even if nobody waits for it any more."""
        async with self._swap:
            with anyio.CancelScope(shield=True):
                yield

    async def _take_back_failures(self, servers: Iterable[ServerName]) -> None:
        """Have servers asked again as if they had not failed; the lock is held."""
        known = [self.view.catalog.part(name) for name in servers]
        parts = [replace(part, failure=None) for part in known if part.failure]
        if parts:
            await self._swap_in(self.view.catalog.with_parts(parts))
            await self._remember(partial(self._save_parts, parts))

    async def _take_arrived(self) -> None:
        arrived, self._arrived = self._arrived, {}
        await self._meet(arrived.values())
        # In a thread, as the diff below: with 10,000 tools each held the loop for 40 ms.
        if parts := await anyio.to_thread.run_sync(self._parts, arrived.values()):
            await self._swap_in(self.view.catalog.with_parts(parts))
            await self._remember(partial(self._save_parts, parts))

    async def _meet(self, arrived: Iterable[ListingResult]) -> None:
        """Have the trustee see what was listed, before anybody else does; the lock is held."""
        heard = [
            said._replace(server=server)
            for one in arrived
            if (said := one.listed_server) and (server := self._as_reached_now(one))
        ]
        settings = self.view.settings
        trust = await anyio.to_thread.run_sync(self.trust_store.accept_listed, settings, heard)
        if trust is not self.trust_store.trust:
            self.trust_store.trust = trust
            self._ingestor = replace(self._ingestor, trust=trust)
            self.view = replace(self.view, lost_at=trust.decisions.lost_at)

    def _parts(self, arrived: Iterable[ListingResult]) -> list[ServerPart]:
        return [part for one in arrived if (part := self._part(one))]

    def _part(self, told: ListingResult) -> ServerPart | None:
        server = self._as_reached_now(told)
        if server is None:
            return None
        return part_from_result(server, self.view.catalog.part(server.name), told, self._ingestor)

    def _as_reached_now(self, told: ListingResult) -> ServerSettings | None:
        """The settings of the server that told, if it still is reached as it was then."""
        server = self.view.settings.by_name.get(told.server.name)
        return server if server and server.transport == told.server.transport else None

    async def _adopt(self, settings: Settings, known: Snapshot, index: bytes | None = None) -> None:
        """Make `settings` those in force, with what is `known`; the lock is held."""
        trust = await anyio.to_thread.run_sync(self.trust_store.load, settings)
        self.trust_store.trust = trust
        self._ingestor = Ingestor(Rulebook(settings), trust)
        self.view = replace(self.view, lost_at=trust.decisions.lost_at)
        carry = partial(carried_over, known.catalog, known.settings, self._ingestor)
        parts = await anyio.to_thread.run_sync(carry)
        catalog = Catalog.of(parts, revision=known.catalog.revision + 1)
        await self._swap_in(catalog, settings, index)
        is_elsewhere = _world_of(known.settings) != self._world
        saved = {} if is_elsewhere else known.catalog.parts
        changed = [part for part in parts if part is not saved.get(part.server)]
        await self._remember(partial(self._save_all, settings, changed))
        await self._recall_usage()

    async def _recall_usage(self) -> None:
        """Answer by what was counted; the lock is held."""
        uses: Mapping[ToolKey, UseCount] = {}
        if self.view.settings.search.learn:
            try:
                uses = await anyio.to_thread.run_sync(self._store.uses, self._world)
            except RegistryError as error:
                logger.warning("What was used could not be recalled: %s", error)
        if uses or self.view.usage:
            self.view = replace(self.view, usage=usage_shares(uses, self._clock()))

    async def _swap_in(
        self, catalog: Catalog, settings: Settings | None = None, index: bytes | None = None
    ) -> None:
        """Make `catalog` the one to answer from, with other settings if so; the lock is held.

        Both change at once: what the catalog says by number, the settings must be able to tell.
        """
        before = self.view
        view = replace(before, settings=settings or before.settings)
        searcher = await self._searcher_over(catalog, view, index)
        diff = await anyio.to_thread.run_sync(before.catalog.diff, catalog)
        self.view = replace(view, catalog=catalog, open_searcher=lambda: searcher)
        self._tell_of_slow_rules()
        if diff:
            counts = len(diff.added), len(diff.removed), len(diff.changed)
            self._events.publish(CatalogChanged(catalog.revision, *counts))

    async def _searcher_over(self, catalog: Catalog, view: View, index: bytes | None) -> Searcher:
        """Opened from the remembered `index` of the catalog, or made from that of the `view`."""
        search = view.settings.search
        described = {server.name: server.description for server in view.settings.servers}
        if index:
            opening = partial(load_searcher, index, catalog, search, descriptions=described)
            if opened := await anyio.to_thread.run_sync(opening):
                self._kept = opened.index
                return opened
        making = partial(build_searcher, catalog, search, descriptions=described)
        try:
            return await anyio.to_thread.run_sync(partial(making, previous=view.searcher))
        except Exception:
            logger.warning(_UNREADABLE, exc_info=True)
            return await anyio.to_thread.run_sync(making)

    async def _index_anew(self) -> None:
        """Answer from an index that nothing is taken over into; the lock is held."""
        nothing = build_searcher(Catalog(), self.view.settings.search)
        without = replace(self.view, open_searcher=lambda: nothing)
        searcher = await self._searcher_over(without.catalog, without, None)
        self.view = replace(self.view, open_searcher=lambda: searcher)

    def _tell_of_slow_rules(self) -> None:
        for problem in self._ingestor.rulebook.problems:
            if problem not in self._told:
                logger.warning("%s", problem)
        self._told.update(self._ingestor.rulebook.problems)

    async def _remember(self, save: Callable[[], object]) -> bool:
        """Save in a thread; a registry that fails costs the next start its head start only.

        Returns whether it was saved.
        """
        try:
            await anyio.to_thread.run_sync(save)
        except RegistryError as error:
            logger.warning("The catalog could not be remembered: %s", error)
            return False
        return True

    def _save_all(self, settings: Settings, parts: Sequence[ServerPart]) -> None:
        self._store.save_settings(self._world, settings)
        self._save_parts(parts)

    def _save_forgetting(self, names: Collection[ServerName] | None) -> None:
        self._store.forget(self._world, names)
        self._save_parts(())

    def _save_parts(self, parts: Iterable[ServerPart]) -> None:
        self._store.save_parts(self._world, parts, revision=self.view.catalog.revision)


def _world_of(settings: Settings) -> str:
    return catalog_key(
        settings.path, is_untrusted=settings.is_untrusted_origin, frozen=settings.frozen
    )
