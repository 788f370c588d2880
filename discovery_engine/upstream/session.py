"""A session with one server: calls, listings and pings.

`session_task` connects and closes it, in a task of its own. Callers in other tasks lease the
session, wait for its RPC client and send through it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import Promise
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import (
    FailureKind,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import ServerDiscovering
from discovery_engine.rpc.client import NOTHING, covers, of_questions
from discovery_engine.rpc.messages import (
    Notification,
    OnProgress,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.rpc.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_engine.rpc.request_headers import HeaderMap, RequestDetails
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import CALL_TOOL, Call, RequestNotProcessed, UpstreamRequest
from discovery_engine.upstream.calls_in_flight import CallsInFlight, is_more_verbose
from discovery_engine.upstream.connection import (
    Era,
    StoredEra,
    connection_fingerprint,
)
from discovery_engine.upstream.handshake import (
    Capabilities,
    ServerInfo,
)
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.listing import (
    FetchList,
    Listing,
    Pages,
    declared_kinds,
    header_maps,
    read_listing,
    read_pages,
)
from discovery_engine.upstream.notifications import LOG_LEVELS, ChangeEvents, RootsChanges
from discovery_engine.upstream.rpc_client import (
    LONGEST_CALL,
    RpcClient,
    call_error,
    is_task,
    is_unsent,
    listing_error,
    record_failure,
    require_flat,
)
from discovery_engine.upstream.state import SessionStats
from discovery_engine.upstream.stdio.pipe_transport import PipeTransport
from discovery_engine.upstream.task import (
    RisingProgress,
    TaskState,
    TaskWait,
    unexpected_task,
)
from discovery_engine.upstream.transport import RequestAnswer, Transport
from discovery_engine.upstream.transport_opening import (
    SessionCallbacks,
    SessionContext,
)

HandOut: TypeAlias = Callable[["Session", Call, UpstreamRequest, TaskState], JSONObject | None]
"""Hands a task to the client of a call; returns None if the call has to wait for its result."""

_PING = "ping"
_NEVER_EXECUTED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND)
_RENEWAL = 5.0  # seconds to wait for the server info of a stored connection
_FAULT_LIMIT = 100  # protocol violations, after which the session is retired
_NOT_CAUSED_BY_ERA = {
    FailureKind.AUTH,
    FailureKind.DNS,
    FailureKind.REFUSED,
    FailureKind.TIMEOUT,
    FailureKind.TLS,
}


logger = logging.getLogger(__name__)


class _Lease:
    """A lease of a session: a class, since a generator takes twice as long in each call."""

    __slots__ = ("_call", "_session", "_token")

    def __init__(self, session: Session, call: Call | None) -> None:
        self._session = session
        self._call = call

    async def __aenter__(self) -> RpcClient:
        session = self._session
        session.users += 1
        if self._call:
            self._token = session.calls.begin(self._call)
        try:
            return session.rpc.value or await session.rpc.wait()
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *exc: object) -> None:
        if self._call:
            self._session.calls.end(self._call, self._token)
        self._session.end_use()


class Session:
    """One connection to one server, shared by its callers."""

    def __init__(
        self,
        server: ServerSettings,
        context: SessionContext,
        history: ServerHistory,
        capabilities: Capabilities,
    ) -> None:
        """Create an unconnected session, which declares `capabilities` in the older era."""
        self.server = server
        self.history = history
        self.connection = connection_fingerprint(server)
        self.capabilities = capabilities
        self.era = StoredEra(context.eras, self.connection, server.name)
        self.changes = ChangeEvents(server.name, context.events)
        self.calls = CallsInFlight(server.name, context.questions_of, context.scheduler)
        self.roots = RootsChanges()
        self._log_level: str | None = None
        self._context = context
        self.rpc: Promise[RpcClient] = Promise()
        self._retired = anyio.Event()
        self.is_retired = False
        """True if it takes no new callers; current calls still finish."""
        self._unused = anyio.Event()
        self.users = 0
        self._kept: dict[str, float] = {}
        self._loop = asyncio.get_running_loop()
        self._used_at = self._loop.time()
        self._is_counted = False
        self._loss: UnavailableError | None = None
        self.is_replaced = False
        """True if another session has replaced it, which has capabilities that this one lacks."""

    @property
    def expires_in(self) -> float | None:
        """Seconds until it is closed for being idle; None while it has callers."""
        if self.users:
            return None
        until = self._used_at + self._context.idle_timeout
        return max(until, *self._kept.values(), until) - self._loop.time()

    def keep(self, task: str, until: float) -> None:
        """Stay open for a task, even if idle, until the time `until` of the event loop."""
        self._kept[task] = until

    def release(self, task: str) -> None:
        """No longer stay open for a task, because it is over or no client needs its result."""
        self._kept.pop(task, None)

    @property
    def stats(self) -> SessionStats:
        """The counters of this session, and the last stderr lines of its program."""
        return _stats_of(self.rpc.value, users=self.users)

    async def wait_retired(self) -> None:
        """Wait until it takes no new callers."""
        await self._retired.wait()

    def declares(self, capabilities: Capabilities) -> bool:
        """Return whether a caller with these capabilities needs no new session.

        Also true in the newer era, while the era is unknown, and while other calls run: then it is
        not replaced. Listings finish on a replaced session; watches move to the next one.
        """
        rpc = self.rpc.value
        is_replaceable = rpc is not None and not rpc.is_modern and self.calls.is_empty
        return not is_replaceable or covers(self.capabilities, capabilities)

    def may_lack(self, capabilities: Capabilities) -> bool:
        """Return whether it may lack these capabilities, because its era is not known yet."""
        return not self.rpc.is_settled and not covers(self.capabilities, capabilities)

    def lists_for(self, capabilities: Capabilities) -> bool:
        """Return whether its lists are those for clients with these capabilities."""
        rpc = self.rpc.value
        return (rpc is not None and rpc.is_modern) or covers(self.capabilities, capabilities)

    def replace(self) -> None:
        """Retire it: another session takes its place."""
        self.is_replaced = True
        self.retire()

    def retire(self) -> None:
        """Take no new callers, and close once the current calls have finished."""
        self.is_retired = True
        self._retired.set()

    @property
    def callbacks(self) -> SessionCallbacks:
        """The callbacks of its transport."""
        return SessionCallbacks(self._lose, self._on_fault, self._on_notification, self._answer)

    def begin(self) -> None:
        """Record that the session is connecting, until `open`, `fail` or `end`."""
        self._is_counted = True
        self.history.record_connecting()

    def open(self, rpc: RpcClient) -> None:
        """Let callers send through `rpc`."""
        self.rpc.set(rpc)
        self.history.record_ready()
        if rpc.transport.is_lost:  # it was lost while its era was stored
            self._lose()

    def fail(self, error: UnavailableError) -> None:
        """Record that connecting failed, and raise `error` in callers; no-op once it was open."""
        if not self.rpc.is_settled:
            self.history.record_failure(error)
            self.rpc.fail(error)

    def end(self) -> None:
        """End the session when its task ends; callers that still wait get an `UnavailableError`."""
        self.retire()
        self.rpc.fail(_closed(self.server.name))
        self.history.add_session(self.stats)
        self._close()

    async def wait_unused(self) -> None:
        """Wait until it has no callers."""
        while self.users:
            self._unused = anyio.Event()
            await self._unused.wait()

    async def explain_loss(self, transport: Transport) -> None:
        """Record how the server closed the connection."""
        self.history.stderr = transport.stderr
        reason = await transport.exit_reason()
        if self._loss:
            self.history.explain_loss(self._loss, reason)

    def _lose(self) -> None:
        """Handle a connection that the server closed; no-op during the handshake, which fails."""
        if self.rpc.value is None:
            return
        if self.users and not self.is_retired:
            self._loss = UnavailableError(self.server.name, FailureKind.LOST, "it went away")
        self._close(self._loss)
        self.retire()

    def _close(self, lost: UnavailableError | None = None) -> None:
        """Record once that the session takes no more calls."""
        if self._is_counted:
            self._is_counted = False
            self.history.record_closed(was_ready=self.rpc.value is not None, lost=lost)

    def _on_fault(self, fault: str, times: int) -> None:
        """Record a protocol violation; after too many of them the session is retired."""
        if self.is_retired:
            return
        self.history.record_fault(fault)
        if times >= _FAULT_LIMIT:
            self.retire()

    def lease(self, call: Call | None = None) -> _Lease:
        """Return a context manager that gives the RPC client once the session is connected.

        While the block runs the session stays open, and `call` is in flight.

        Raises:
            UnavailableError: On entry, if connecting fails.
        """
        return _Lease(self, call)

    def end_use(self) -> None:
        """End a use that a lease has begun."""
        self.users -= 1
        if not self.users:
            self._used_at = self._loop.time()
            self._unused.set()

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
        hand_out: HandOut,
    ) -> JSONObject:
        """Send a request, and return its result; if a tool answers with a task, the task's.

        Args:
            server: The current settings of the server.
            request: The request, whose arguments are not checked here.
            call: The call that the request belongs to.
            on_progress: Awaited for each progress notification.
            hand_out: Hands a task to the client of the call.

        Raises:
            RequestNotProcessed: If the server provably did not process the request.
            UpstreamError: See `Upstreams.send`.
        """
        async with self.lease(call) as rpc:
            if (level := call.client.log_level) is not None and not rpc.is_modern:
                await self._request_messages(rpc, level)
            if rpc.offers_tasks and request.method == CALL_TOOL:
                result = await self._task_result(rpc, server, request, call, on_progress, hand_out)
            else:
                result = await self._request(rpc, server, request, call, on_progress)
                if is_task(result):
                    raise unexpected_task(server.name, request.method)
        await require_flat(server, result)
        self.history.record_success()
        return result

    async def ask(self, server: ServerSettings, request: UpstreamRequest, call: Call) -> JSONObject:
        """Send a request about a task, and return the answer.

        Raises:
            UpstreamError: See `Upstreams.send`.
        """
        async with self.lease(call) as rpc:
            return await self._ask(rpc, server, call, request, server.timeouts.call)

    async def _task_result(
        self,
        rpc: RpcClient,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
        hand_out: HandOut,
    ) -> JSONObject:
        """Return the result of a call that may become a task."""
        progress = RisingProgress(on_progress) if on_progress else None
        report = progress.report if progress else None
        result = await self._request(rpc, server, request, call, report)
        if not is_task(result):
            return result
        state = TaskState.from_json(server.name, result)
        if handle := hand_out(self, call, request, state):
            return handle
        wait = TaskWait(
            state,
            call,
            request.subject,
            partial(self._ask, rpc, server, call),
            progress,
            seconds=max(server.timeouts.call, LONGEST_CALL),
            is_lost=lambda: rpc.transport.is_lost,
        )
        return await wait.result()

    async def _ask(
        self,
        rpc: RpcClient,
        server: ServerSettings,
        call: Call,
        request: UpstreamRequest,
        seconds: float,
    ) -> JSONObject:
        """Return the answer to a request about a task, within `seconds`."""
        try:
            return await self._request(rpc, server, request, call, at_most=seconds)
        except RequestNotProcessed as again:  # the call itself must not be sent again
            raise again.error from again

    async def _request(
        self,
        rpc: RpcClient,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None = None,
        *,
        at_most: float = math.inf,
    ) -> JSONObject:
        """Return the answer to one request, within `at_most` seconds; raises what `send` raises."""
        everywhere = self._context.everywhere
        arguments = request.params.get("arguments") or {}
        details = RequestDetails(
            rpc.info.version, request.name, arguments, self._header_map(request)
        )
        seconds = min(server.timeouts.call, at_most)
        try:
            if not everywhere.acquire_now():
                await everywhere.acquire()
            call.hold(everywhere)
            try:
                return await rpc.request(
                    request.method,
                    request.params,
                    details=details,
                    meta=rpc.call_meta(request, call),
                    timeout=RequestTimeout(seconds, LONGEST_CALL, call.clock),
                    on_progress=on_progress,
                )
            finally:
                call.release(everywhere)
        except RequestTimeoutError as timeout:
            failure = UpstreamTimeoutError(server.name, repr(request.subject), timeout.seconds)
            self.history.record_timeout(repr(request.subject), timeout.seconds)
            await self._reject_stored_era(rpc, failure)
            raise failure from None
        except RpcError as error:
            raise await self._error(rpc, request.subject, error) from error
        except ValueError as error:
            raise UpstreamProtocolError(server.name, str(error), INVALID_PARAMS) from error

    def _header_map(self, request: UpstreamRequest) -> HeaderMap | None:
        """Return the arguments of a call to send as headers; None if there are none."""
        if request.method != CALL_TOOL or request.name is None:
            return None
        return self._context.header_maps.get(self.connection, {}).get(request.name)

    async def _error(
        self, rpc: RpcClient, subject: str, error: RpcError
    ) -> UpstreamError | RequestNotProcessed:
        """Return the error to raise for a failed request of a call."""
        failure = await call_error(rpc.transport, subject, error)
        if self._is_unprocessed(rpc, error):
            return RequestNotProcessed(failure)
        if error.code == HEADER_MISMATCH and self.connection not in self._context.header_maps:
            # Learns which arguments are sent as headers.
            await self.list_tools(self.server, NOTHING)
            return RequestNotProcessed(failure)
        if await self._reject_stored_era(rpc, failure) and error.code in _NEVER_EXECUTED:
            return RequestNotProcessed(failure)
        await record_failure(self.history, rpc, failure, error)
        return failure

    def _is_unprocessed(self, rpc: RpcClient, error: RpcError) -> bool:
        """Retire the session, and return True, if the server rejected a request because of it."""
        if not (rpc.transport.wants_new_session(error) or is_unsent(error)):
            return False
        self.retire()
        return True

    async def list_tools(self, server: ServerSettings, declared: Capabilities) -> Listing:
        """List the tools of the server, and its resources and prompts.

        `declared` are the capabilities of the clients that it is listed for.

        Raises:
            RequestNotProcessed: If the server provably did not process a request.
            UpstreamError: See `Upstreams.list_tools`.
        """
        async with self.lease() as rpc:
            self._context.events.publish(ServerDiscovering(server.name))
            self.changes.rearm()
            list_page = partial(rpc.list_page, declared=declared)
            pages = await self._pages(server, rpc, list_page)
            self.history.record_success()
            info = await self._refreshed_info(rpc)
            listing = await read_listing(
                pages,
                info.capabilities,
                list_page,
                seconds=server.timeouts.list,
                find_fault=rpc.transport.header_fault if info.is_modern else lambda _: None,
            )
            maps = (
                await header_maps(listing.tools, rpc.transport.header_map) if info.is_modern else {}
            )
        self._context.header_maps[self.connection] = maps
        return replace(
            listing,
            instructions=info.instructions,
            connection=self.connection,
            declared=of_questions(declared) if self.lists_for(declared) else {},
        )

    async def _pages(self, server: ServerSettings, rpc: RpcClient, list_page: FetchList) -> Pages:
        seconds = server.timeouts.list
        try:
            return await read_pages(partial(list_page, "tools/list"), seconds=seconds)
        except RpcError as error:
            has_no_tools = "tools" not in rpc.info.capabilities and bool(
                declared_kinds(rpc.info.capabilities)
            )
            if rpc.is_proven and (error.code == METHOD_NOT_FOUND or has_no_tools):
                return Pages()  # a server without tools need not support the request
            failure = await listing_error(rpc.transport, error)
            if self._is_unprocessed(rpc, error):
                raise RequestNotProcessed(failure) from error
            await record_failure(self.history, rpc, failure, error)
        except TimeoutError:
            failure = UpstreamTimeoutError(server.name, "tools/list", seconds)
            self.history.record_timeout("tools/list", seconds)
        except ValueError as error:
            failure = UpstreamProtocolError(server.name, str(error))
        is_rejected = await self._reject_stored_era(rpc, failure)
        raise RequestNotProcessed(failure) if is_rejected else failure

    async def ping(self, server: ServerSettings) -> float:
        """Return the seconds that the server takes to answer, without those for connecting.

        Raises:
            RequestNotProcessed: If the server provably did not process it.
            UpstreamError: If it cannot be reached, or does not answer in time.
        """
        async with self.lease() as rpc:
            try:
                if not rpc.is_proven:  # it may still be starting, which is not measured
                    await rpc.ping(seconds=server.timeouts.call)
                began = time.monotonic()
                await rpc.ping(seconds=server.timeouts.call)
            except RequestTimeoutError as timeout:
                self.history.record_timeout(_PING, timeout.seconds)
                raise UpstreamTimeoutError(server.name, _PING, timeout.seconds) from None
            except RpcError as error:
                if error.code != METHOD_NOT_FOUND:  # which is an answer, too
                    failure = await call_error(rpc.transport, _PING, error)
                    if self._is_unprocessed(rpc, error):
                        raise RequestNotProcessed(failure) from error
                    await record_failure(self.history, rpc, failure, error)
                    raise failure from error
            seconds = time.monotonic() - began
            self.history.record_success()
            return seconds

    async def _request_messages(self, rpc: RpcClient, level: str) -> None:
        """Request log messages from `level` on; the most verbose level of all callers counts.

        In the newer era each call names its own level.
        """
        if level not in LOG_LEVELS or "logging" not in rpc.info.capabilities:
            return
        if self._log_level is None or is_more_verbose(level, than=self._log_level):
            self._log_level = level
            await rpc.set_log_level(level)

    async def _refreshed_info(self, rpc: RpcClient) -> ServerInfo:
        """Return the server info; that of an earlier connection is requested again and stored."""
        if not rpc.is_stored:
            return rpc.info
        with anyio.move_on_after(_RENEWAL):
            await rpc.refresh_info()
            await self.era.save(Era(rpc.transport.kind, rpc.info.discover))
        return rpc.info

    async def _reject_stored_era(self, rpc: RpcClient, error: UpstreamError) -> bool:
        """Delete the stored era if `error` may come from it; returns whether it was deleted.

        The next session then probes the server.
        """
        is_elsewhere = isinstance(error, UnavailableError) and error.kind in _NOT_CAUSED_BY_ERA
        if rpc.is_proven or is_elsewhere:
            return False
        self.retire()
        await self.era.delete()
        return True

    def _answer(self, method: str, params: JSONObject) -> RequestAnswer:
        if method == "ping":
            self._context.on_message(self.server.name, method, None)
        return self.calls.answer(method, params)

    def _on_notification(self, notification: Notification) -> None:
        self._context.on_message(self.server.name, notification.method, notification.params)
        self.changes.publish(notification)
        self.calls.notify(notification)


def _stats_of(rpc: RpcClient | None, *, users: int) -> SessionStats:
    """Return the counters of a session and its last stderr lines; `rpc` is None before it opens."""
    if rpc is None:
        return SessionStats(users=users)
    version, transport = rpc.info.version, rpc.transport
    if not isinstance(transport, PipeTransport):
        return SessionStats(users=users, protocol_version=version)
    garbage, pending = transport.reader.garbage, transport.peer.pending
    return SessionStats(
        users=users,
        protocol_version=version,
        pid=transport.child.pid,
        garbage=garbage.count,
        samples=tuple(garbage.samples),
        strays=pending.unsolicited,
        duplicates=pending.duplicates,
        stderr=transport.stderr,
        sandbox=transport.sandbox,
    )


def _closed(server: ServerName) -> UnavailableError:
    return UnavailableError(server, FailureKind.LOST, "its session was closed")
