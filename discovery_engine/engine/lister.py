"""Lists the tools of servers, single-flight: concurrent callers share one listing per server.

The outcome is applied to the catalog state; the current view has the servers that may be listed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from discovery_engine.catalog import RefreshReport
from discovery_engine.engine.ingestion.server_parts import (
    ListingResult,
    failure_of,
    parse_definitions,
)
from discovery_engine.errors import (
    FailureKind,
    NeedsAuthError,
    NeedsConfigError,
    OutcomeUnknownError,
    RegistryError,
    ServerStartingError,
    UnavailableError,
    UpstreamError,
)
from discovery_engine.rpc.client import covers
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import LiveStates

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import CacheSettings, ServerSettings
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.store.refresh_job import RefreshClaim, SaveOutcome
    from discovery_engine.upstream.listing import Listing
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_TENDED_FOR = 60.0  # seconds until a gateway looks again whether workers list a server
_RECOVERY_WAIT = 2.0  # seconds that a call which shows that its server is back waits for its list
_DISPROVED = frozenset({UnavailableError.code, NeedsAuthError.code, NeedsConfigError.code})
"""The codes of failures that end once the server answers anything."""
_NOT_TRIED = (FailureKind.BUSY, FailureKind.SCOPE, FailureKind.UNTRUSTED)
_QUEUE_FACTOR = 6  # times `max_wait` that a caller waits for all servers, whatever the queue


class ClaimedListing(Struct, frozen=True):
    """The listing of a claimed server."""

    server: ServerSettings
    """Its settings then."""
    listing: Listing
    at: float
    """Unix time in seconds."""


class ServerLister:
    """Lists in `tasks`, so that a listing completes even if its callers are cancelled.

    `complete` is awaited before the settings of a server are used, `on_applied` is called after a
    listing was applied to the catalog; `clock` is Unix time in seconds.
    """

    def __init__(
        self,
        current: CatalogState,
        upstreams: Upstreams,
        tasks: TaskGroup,
        *,
        complete: Callable[[], Awaitable[None]],
        on_applied: Callable[[ListingResult], None],
        clock: Callable[[], float],
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._tasks = tasks
        self._complete = complete
        self._on_applied = on_applied
        self._clock = clock
        self._in_flight: dict[ServerName, anyio.Event] = {}
        self._one_ended = anyio.Event()
        self._answered: set[ServerName] = set()
        self._tended_until: dict[ServerName, float] = {}
        """Servers that are left to workers, and until when."""
        self._errors: dict[ServerName, UpstreamError] = {}
        self._listed_for: dict[ServerName, Mapping[str, JSONObject]] = {}

    def live(self) -> Mapping[ServerName, StateInfo]:
        """The live states of the servers used so far."""
        return LiveStates(self._used, self._live)

    async def refresh(
        self,
        servers: Iterable[str] | None,
        *,
        only_due: bool = False,
        max_wait: float | None = None,
    ) -> RefreshReport:
        """Refresh the servers; see `Engine.refresh`."""
        before = self._view.catalog
        chosen = self._chosen(servers)
        if only_due:
            due = [name for name in chosen if self._due_in(name) <= 0]
            chosen = await self._untended(due)
        else:
            for name in chosen:
                self._upstreams.reset_backoff(name)
        starting = await self._list_all(chosen, max_wait)
        failures = [(name, self._view.catalog.part(name).failure) for name in chosen]
        refusals = self._view.refusals() if servers is None else ()
        failures += [(ServerName(r.server), failure_of(r, self._clock())) for r in refusals]
        diff = await anyio.to_thread.run_sync(before.diff, self._view.catalog)
        listed = sorted(failures, key=lambda server: server[0])
        return RefreshReport(tuple(listed), diff, tuple(starting))

    async def wait_all_listed(self, among: Container[ServerName] | None = None) -> None:
        """Wait until every connectable server, or each of some, was listed or has failed once."""
        names = (n for n in self._view.connectable if among is None or n in among)
        parts = map(self._view.catalog.part, names)
        await self._list_all([p.server for p in parts if not (p.listed_at or p.failure)])

    async def ensure_listed(self, name: ServerName) -> None:
        """List a server that was never listed; no-op for one that must not be connected."""
        if not self._view.is_known(name) and name in self._view.connectable:
            await self._start(name).wait()

    async def list_server(self, name: ServerName, *, max_wait: float | None = None) -> None:
        """List a server.

        Raises:
            ServerStartingError: If it has not answered within `max_wait` seconds; it goes on.
            UpstreamError: If it cannot be reached.
        """
        ended = self._start(name)
        with anyio.move_on_after(max_wait):
            await ended.wait()
        if not ended.is_set():
            raise ServerStartingError(name, self._upstreams.startup(name).starting_for)
        if unreached := self._errors.get(name):
            raise unreached

    async def relist(self, name: ServerName) -> None:
        """List a server again, after a listing in flight has ended."""
        if earlier := self._in_flight.get(name):  # it may have been answered before the change
            await earlier.wait()
        await self._start(name).wait()

    async def list_claimed(self, claim: RefreshClaim) -> ClaimedListing | None:
        """List a server that a worker has claimed, as it is configured now.

        None if it must not be listed any more.

        Raises:
            UpstreamError: If it cannot be listed.
        """
        await self._complete()
        server = self._view.connectable.get(claim.server)
        if server is None:
            return None
        self._upstreams.reset_backoff(server.name)
        try:
            with _readable(server.name):
                declared = self._view.catalog.part(server.name).declared
                listing = await self._upstreams.list_tools(server, declared)
                return ClaimedListing(server, listing, self._clock())
        finally:
            # A fleet has more servers than a machine can hold sessions with.
            with anyio.CancelScope(shield=True):
                await self._upstreams.close(server.name)

    async def apply_claimed(
        self, listed: ClaimedListing, claim: RefreshClaim, *, due_in: float
    ) -> SaveOutcome | None:
        """Apply the listing of a claimed server; see `CatalogState.apply_claimed`.

        Raises:
            UpstreamError: If the list cannot be read; nothing is stored then.
            RegistryError: If it cannot be stored.
        """
        result = ListingResult(listed.server, listed.listing, listed.at)
        with _readable(listed.server.name):
            outcome = await self._current.apply_claimed(result, claim, due_in=due_in)
        if outcome is not None:
            self._on_applied(result)
        return outcome

    async def note_tried(self, server: ServerSettings, error: UpstreamError | None) -> None:
        """Show in lists, also of other processes, what a request has shown of its server.

        One that answers although it was down is listed, for at most `_RECOVERY_WAIT` seconds.
        """
        failure = self._view.catalog.part(server.name).failure
        if error is None:
            if failure is not None and failure.code in _DISPROVED:
                with suppress(UpstreamError):
                    await self.list_server(server.name, max_wait=_RECOVERY_WAIT)
            return
        old_failure = failure and (failure.code, failure.message)
        down = self._outage(server.name, error)
        if down and old_failure != (down.code, down.message):
            await self._apply(ListingResult(server, down, self._clock()))

    def _outage(self, name: ServerName, error: UpstreamError) -> UnavailableError | None:
        """The outage of a server since a request failed; None if it is up or was not tried."""
        live = self._upstreams.live(name)
        is_down = live is not None and (live.state.is_down or live.state is ServerState.NEEDS_AUTH)
        if live and isinstance(error, OutcomeUnknownError):
            error = UnavailableError(
                name, FailureKind.LOST, error.reason, stderr=live.stderr, detail=error.detail
            )
        if not isinstance(error, UnavailableError) or isinstance(error.__cause__, UpstreamError):
            return None
        is_tried = is_down and error.kind not in _NOT_TRIED
        return error if is_tried or error.kind is FailureKind.NEEDS_CONFIG else None

    def seconds_until_due(self) -> float:
        """Seconds until the next server is due; 0 or less if one is, infinite if none will be."""
        return min(map(self._due_in, self._view.connectable), default=math.inf)

    @property
    def _view(self) -> View:
        return self._current.view

    def _used(self) -> set[ServerName]:
        return self._upstreams.contacted() | self._in_flight.keys()

    def _live(self, name: ServerName) -> StateInfo | None:
        live = self._upstreams.live(name)
        is_starting = live is not None and live.state is ServerState.STARTING
        if name in self._in_flight and not is_starting:
            # The session may be open while its tools are listed for the first time.
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
        """Seconds until a server should be listed again."""
        part, now = self._view.catalog.part(name), self._clock()
        due = due_in(part, self._view.settings.cache, now=now)
        if self._is_for_others(part):
            return 0.0
        return max(due, self._tended_until.get(name, now) - now)

    def _is_for_others(self, part: ServerPart) -> bool:
        """Return whether a part was listed for clients that have less than those of this process.

        A server is listed once for them.
        """
        expected = self._upstreams.expected
        if not expected or self._listed_for.get(part.server) is expected or part.failure:
            return False
        return part.listed_at is not None and not covers(part.declared, expected)

    async def wait_other_clients(self) -> None:
        """Wait until a client has capabilities that no client had before."""
        await self._upstreams.other_clients.wait()

    async def _untended(self, due: list[ServerName]) -> list[ServerName]:
        """The servers that no worker lists in time; also those that cannot be used yet."""
        parts = [*map(self._view.catalog.part, due)]
        for_others = {part.server for part in parts if self._is_for_others(part)}
        usable = {
            part.server
            for part in parts
            if part.listed_at and not part.failure and part.server not in for_others
        }
        if not usable:
            return due
        tended = usable & await self._current.tended_servers()
        until = self._clock() + _TENDED_FOR
        self._tended_until = dict.fromkeys(tended, until) | {
            name: at for name, at in self._tended_until.items() if name not in due
        }
        return [name for name in due if name not in tended]

    async def _list_all(
        self, names: Iterable[ServerName], max_wait: float | None = None
    ) -> list[ServerName]:
        """List servers concurrently; returns those that have not answered in time.

        A server is waited for until it has been starting for `max_wait` seconds. Waiting for a
        start slot does not count, up to `_QUEUE_FACTOR` times that.
        """
        ended = {name: self._start(name) for name in names}
        with anyio.move_on_after(None if max_wait is None else max_wait * _QUEUE_FACTOR):
            while waiting := _waiting(ended):
                remaining = (
                    None if max_wait is None else max_wait - min(map(self._starting_for, waiting))
                )
                if remaining is not None and remaining <= 0:
                    break
                with anyio.move_on_after(remaining):
                    await self._one_ended.wait()
        await self._current.save_index()
        return _waiting(ended)

    def _starting_for(self, name: ServerName) -> float:
        """Seconds for which a server has been starting; 0 if it has answered."""
        if name in self._answered:  # its answer is being processed
            return 0.0
        return self._upstreams.startup(name).starting_for or 0.0

    def _start(self, name: ServerName) -> anyio.Event:
        """Start a listing unless one is in flight; the event is set when it has ended."""
        if (ended := self._in_flight.get(name)) is None:
            ended = self._in_flight[name] = anyio.Event()
            self._tasks.start_soon(self._list, name, ended)
        return ended

    async def _list(self, name: ServerName, ended: anyio.Event) -> None:
        """List a server; again if a reload changed its transport meanwhile."""
        try:
            await self._complete()
            is_applied = False
            while not is_applied and (server := self._view.connectable.get(name)):
                is_applied = await self._list_once(server)
        finally:
            del self._in_flight[name]
            ended.set()
            self._one_ended.set()
            self._one_ended = anyio.Event()

    async def _list_once(self, server: ServerSettings) -> bool:
        """Returns whether the outcome was applied to the catalog."""
        self._errors.pop(server.name, None)
        self._listed_for[server.name] = self._upstreams.expected
        try:
            return await self._apply(await self._listed(server))
        except UpstreamError as error:
            failure = error
        except Exception as error:  # an unexpected list must not affect other servers
            logger.exception("The list of %r cannot be read", server.name)
            failure = _unreadable(server.name, error)
        finally:
            self._answered.discard(server.name)
        self._errors[server.name] = failure
        return await self._apply(ListingResult(server, failure, self._clock()))

    async def _listed(self, server: ServerSettings) -> ListingResult:
        """List a server; its tools are text, as parsed they take four times the memory."""
        part = self._view.catalog.part(server.name)
        listing = await self._upstreams.list_tools(server, part.declared)
        self._answered.add(server.name)
        result = ListingResult(server, listing, self._clock())
        return await anyio.to_thread.run_sync(parse_definitions, result, part)

    async def _apply(self, result: ListingResult) -> bool:
        """Returns whether the result was applied to the catalog."""
        is_applied = await self._current.apply_listing(result)
        if is_applied:
            self._on_applied(result)
        return is_applied


def _waiting(ended: Mapping[ServerName, anyio.Event]) -> list[ServerName]:
    return [name for name, over in ended.items() if not over.is_set()]


@contextmanager
def _readable(server: ServerName) -> Iterator[None]:
    """An unexpected list must not end a worker."""
    try:
        yield
    except (RegistryError, UpstreamError):
        raise
    except Exception as error:
        logger.exception("The list of %r cannot be read", server)
        raise _unreadable(server, error) from error


def _unreadable(server: ServerName, error: Exception) -> UnavailableError:
    reason = f"its list cannot be read: {type(error).__name__}"
    detail = KNOWN_SECRETS.redact(str(error))
    return UnavailableError(server, FailureKind.OTHER, reason, detail=detail)


# When a server is listed again by itself.

_RETRY_AFTER = 60.0  # seconds until a server that failed is listed again by itself


def due_in(part: ServerPart, cache: CacheSettings, *, now: float) -> float:
    """Seconds until a server should be listed again.

    A listing with a future time is due at once: the clock was set back, so its age is unknown.
    """
    at = part.failure.at if part.failure else part.listed_at
    if at is None or at > now:
        return 0.0
    return at + _lifetime(part, cache) - now


def _lifetime(part: ServerPart, cache: CacheSettings) -> float:
    if part.failure:
        return _RETRY_AFTER
    # A server may set a shorter time than the owner, down to the retry interval: a `ttlMs` of 0
    # means "do not cache", not "list without pause".
    return cache.ttl if part.ttl is None else min(cache.ttl, max(part.ttl, _RETRY_AFTER))
