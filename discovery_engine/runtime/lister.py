"""Servers asked for their tools: each once at a time, however many want to know.

What a server tells is taken into the view of the moment; who may be asked, that view says.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from discovery_engine.errors import (
    FailureKind,
    ServerStartingError,
    UnavailableError,
    UpstreamError,
)
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.runtime.ingest import ListingResult, RefreshReport, due_in, report
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import LiveStates

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.runtime.lazy_upstreams import LazyUpstreams
    from discovery_engine.runtime.state import CatalogState
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.listing import Listing
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_LONGEST_QUEUE = 6  # times its patience that a caller waits for all, whatever the queue


class ServerLister:
    """Asks in `tasks`, to the end even if nobody waits for it any more.

    `taken` is called with what a server told, once the view holds it; `clock` tells Unix time in
    seconds.
    """

    def __init__(
        self,
        current: CatalogState,
        upstreams: LazyUpstreams,
        tasks: TaskGroup,
        *,
        taken: Callable[[ListingResult], None],
        clock: Callable[[], float],
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._tasks = tasks
        self._taken = taken
        self._clock = clock
        self._under_way: dict[ServerName, anyio.Event] = {}
        self._one_is_over = anyio.Event()
        self._answered: set[ServerName] = set()
        self._errors: dict[ServerName, UpstreamError] = {}

    def live(self) -> Mapping[ServerName, StateInfo]:
        """How the servers fare at the moment that were asked for something."""
        return LiveStates(self._asked, self._live)

    async def refresh(
        self,
        servers: Iterable[str] | None,
        *,
        only_due: bool = False,
        patience: float | None = None,
    ) -> RefreshReport:
        """As `Engine.refresh`."""
        before = self._view.catalog
        chosen = self._chosen(servers)
        if only_due:
            chosen = [name for name in chosen if self._due_in(name) <= 0]
        else:
            for name in chosen:
                self._upstreams.reset_backoff(name)
        starting = await self._ask_all(chosen, patience)
        parts = [self._view.catalog.part(name) for name in chosen]
        refused = self._view.refusals() if servers is None else ()
        diff = await anyio.to_thread.run_sync(before.diff, self._view.catalog)
        return report(parts, diff, refused=refused, starting=starting, now=self._clock())

    async def wait_all_listed(self) -> None:
        """Wait until every server that may be asked was listed or has failed once."""
        parts = map(self._view.catalog.part, self._view.connectable)
        await self._ask_all([p.server for p in parts if not (p.listed_at or p.failure)])

    async def ensure_listed(self, name: ServerName) -> None:
        """Ask a server that has never been listed; no-op for one that must not be asked."""
        if not self._view.is_known(name) and name in self._view.connectable:
            await self._soon(name).wait()

    async def list_server(self, name: ServerName, *, patience: float | None = None) -> None:
        """Ask a server.

        Raises:
            ServerStartingError: If it has not answered within `patience` seconds; it goes on.
            UpstreamError: If it cannot be reached.
        """
        asked = self._soon(name)
        with anyio.move_on_after(patience):
            await asked.wait()
        if not asked.is_set():
            raise ServerStartingError(name, self._upstreams.startup(name).starting_for)
        if unreached := self._errors.get(name):
            raise unreached

    async def relist(self, name: ServerName) -> None:
        """Ask a server once more, after a listing that is under way."""
        if earlier := self._under_way.get(name):  # it may have read the list before the change
            await earlier.wait()
        await self._soon(name).wait()

    def seconds_until_due(self) -> float:
        """Seconds until the next server is due; not above 0 if one is, infinite if none ever is."""
        return min(map(self._due_in, self._view.connectable), default=math.inf)

    @property
    def _view(self) -> View:
        return self._current.view

    def _asked(self) -> set[ServerName]:
        return self._upstreams.contacted() | self._under_way.keys()

    def _live(self, name: ServerName) -> StateInfo | None:
        live = self._upstreams.live(name)
        is_starting = live is not None and live.state is ServerState.STARTING
        if name in self._under_way and not is_starting:
            # A session may be open while its tools are listed for the first time.
            is_first_listing = (
                live is not None and live.state.is_open and not self._view.is_known(name)
            )
            is_starting = is_first_listing or live is None or live.state is ServerState.IDLE
        return self._upstreams.startup(name) if is_starting else live

    def _chosen(self, servers: Iterable[str] | None) -> list[ServerName]:
        if servers is None:
            return list(self._view.connectable)
        return list(dict.fromkeys(self._view.require_connectable(s).name for s in servers))

    def _due_in(self, name: ServerName) -> float:
        """Seconds until a server's tools should be listed again."""
        part = self._view.catalog.part(name)
        return due_in(part, self._view.settings.cache, now=self._clock())

    async def _ask_all(
        self, names: Iterable[ServerName], patience: float | None = None
    ) -> list[ServerName]:
        """Ask servers all at once; returns those for which it did not wait to the end.

        A server is waited for until it has been starting for `patience` seconds: those that it
        waits for its turn to start do not count, up to some turns.
        """
        asked = {name: self._soon(name) for name in names}
        with anyio.move_on_after(None if patience is None else patience * _LONGEST_QUEUE):
            while waiting := _waiting(asked):
                rest = None if patience is None else patience - min(map(self._spent, waiting))
                if rest is not None and rest <= 0:
                    break
                with anyio.move_on_after(rest):
                    await self._one_is_over.wait()
        await self._current.save_index()
        return _waiting(asked)

    def _spent(self, name: ServerName) -> float:
        """Seconds for which a server has been starting; none if it has answered."""
        if name in self._answered:  # what it said is just being read
            return 0.0
        return self._upstreams.startup(name).starting_for or 0.0

    def _soon(self, name: ServerName) -> anyio.Event:
        """Have a server asked, unless it is being asked; the event says when that is over."""
        if (asked := self._under_way.get(name)) is None:
            asked = self._under_way[name] = anyio.Event()
            self._tasks.start_soon(self._ask, name, asked)
        return asked

    async def _ask(self, name: ServerName, asked: anyio.Event) -> None:
        """Ask a server; once more if a reload changed meanwhile how it is reached."""
        try:
            is_taken = False
            while not is_taken and (server := self._view.connectable.get(name)):
                is_taken = await self._ask_once(server)
        finally:
            del self._under_way[name]
            asked.set()
            self._one_is_over.set()
            self._one_is_over = anyio.Event()

    async def _ask_once(self, server: ServerSettings) -> bool:
        """Returns whether what it told is in the view."""
        self._errors.pop(server.name, None)
        try:
            return await self._take(server, await self._upstreams.list_tools(server))
        except UpstreamError as error:
            failure = error
        except Exception as error:  # whatever is odd in its list, the others must not suffer
            logger.exception("What %r lists cannot be read", server.name)
            failure = _unreadable(server.name, error)
        self._errors[server.name] = failure
        return await self._take(server, failure)

    async def _take(self, server: ServerSettings, outcome: Listing | UpstreamError) -> bool:
        told = ListingResult(server, outcome, self._clock())
        self._answered.add(server.name)
        try:
            is_taken = await self._current.apply_listing(told)
        finally:
            self._answered.discard(server.name)
        if is_taken:
            self._taken(told)
        return is_taken


def _waiting(asked: Mapping[ServerName, anyio.Event]) -> list[ServerName]:
    return [name for name, over in asked.items() if not over.is_set()]


def _unreadable(server: ServerName, error: Exception) -> UnavailableError:
    reason = f"what it lists cannot be read: {type(error).__name__}"
    detail = KNOWN_SECRETS.redact(str(error))
    return UnavailableError(server, FailureKind.OTHER, reason, detail=detail)
