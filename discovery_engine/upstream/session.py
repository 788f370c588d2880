"""The life of one session: connect, serve, close.

One task runs all of it, because task groups must be closed in the task that opened them. Callers
in other tasks lease the session, wait for its RPC client and send through that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

import anyio
from anyio import to_thread

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import Promise, open_task_group
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError, UpstreamError
from discovery_engine.events import ServerConnecting
from discovery_engine.rpc.client import Client
from discovery_engine.rpc.messages import Notification
from discovery_engine.rpc.peer import RpcError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.calls_in_flight import CallsInFlight, is_more_verbose
from discovery_engine.upstream.change_events import ChangeEvents
from discovery_engine.upstream.connect_strategy import (
    ConnectStrategy,
    first_strategy,
    next_strategy,
)
from discovery_engine.upstream.connection import (
    Era,
    admitted_transport,
    connection_fingerprint,
)
from discovery_engine.upstream.handshake import (
    Capabilities,
    ServerInfo,
    connect,
)
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.log_message import LOG_LEVELS
from discovery_engine.upstream.question import merged, of_questions
from discovery_engine.upstream.roots_changes import RootsChanges
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.session_stats import session_stats
from discovery_engine.upstream.startup import Startup, startup_timeout
from discovery_engine.upstream.state import SessionStats
from discovery_engine.upstream.stored_era import StoredEra
from discovery_engine.upstream.transport import (
    RequestAnswer,
    Transport,
    is_resource_exhausted,
    resources_exhausted,
)
from discovery_engine.upstream.transport_opening import (
    SessionCallbacks,
    SessionContext,
    open_transport,
)

_RENEWAL = 5.0  # seconds
_SILENCE = 3.0  # seconds without an answer after which another transport is tried as well
_FAULT_LIMIT = 100
_NOT_CAUSED_BY_ERA = {
    FailureKind.AUTH,
    FailureKind.DNS,
    FailureKind.REFUSED,
    FailureKind.TIMEOUT,
    FailureKind.TLS,
}

logger = logging.getLogger(__name__)


class _Lease:
    """A context manager; one made by a generator takes twice as long, in each call."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> RpcClient:
        return await self._session.begin_use()

    async def __aexit__(self, *exc: object) -> None:
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
        """Not connected yet; `capabilities` are declared to a server of the older era."""
        self.server = server
        self.history = history
        self.connection = connection_fingerprint(server)
        self.capabilities = capabilities
        self._era = StoredEra(context.eras, self.connection, server.name)
        self.changes = ChangeEvents(server.name, context.events)
        self.calls = CallsInFlight(server.name, context.questions_of, context.scheduler)
        self._roots = RootsChanges()
        self._log_level: str | None = None
        self._context = context
        self._rpc: Promise[RpcClient] = Promise()
        self._retired = anyio.Event()
        self._unused = anyio.Event()
        self._users = 0
        self._kept: dict[str, float] = {}
        self._loop = asyncio.get_running_loop()
        self._used_at = self._loop.time()
        self._is_counted = False
        self._loss: UnavailableError | None = None
        self.is_replaced = False
        """True if another session of the server took its place, and has what this one lacks."""

    @property
    def is_retired(self) -> bool:
        """True if it takes no new callers; current calls still finish."""
        return self._retired.is_set()

    @property
    def expires_in(self) -> float | None:
        """Seconds until it is closed for being idle; None while it has callers."""
        if self._users:
            return None
        until = self._used_at + self._context.idle_timeout
        return max(until, *self._kept.values(), until) - self._loop.time()

    def keep(self, task: str, until: float) -> None:
        """Stay open for a task until then, even if idle."""
        self._kept[task] = until

    def release(self, task: str) -> None:
        """A task is over, or no client wants it any more."""
        self._kept.pop(task, None)

    @property
    def stats(self) -> SessionStats:
        """The counters of this session, and the last stderr lines of its program."""
        return session_stats(self._rpc.value, users=self._users)

    async def wait_retired(self) -> None:
        """Wait until it takes no new callers."""
        await self._retired.wait()

    def declares(self, capabilities: Capabilities) -> bool:
        """Return whether a caller with these capabilities needs no new session.

        None is needed, either, while the era is not known, or while calls of others run on it.
        Lists are read to their end over a session that was replaced, and watches follow to the
        next one.
        """
        rpc = self._rpc.value
        is_replaceable = rpc is not None and not rpc.info.is_modern and self.calls.is_empty
        return not is_replaceable or self._has_declared(capabilities)

    def may_lack(self, capabilities: Capabilities) -> bool:
        """Return whether it may lack these capabilities, because its era is not known yet."""
        return not self._rpc.is_settled and not self._has_declared(capabilities)

    def _has_declared(self, capabilities: Capabilities) -> bool:
        mine = of_questions(self.capabilities)
        return merged(mine, of_questions(capabilities)) == mine

    def replace(self) -> None:
        """Retire it: another session takes its place."""
        self.is_replaced = True
        self.retire()

    def roots_changed(self, client: Client) -> None:
        """Notify the server if the client has called it, and the roots that it gets are its own."""
        if self.calls.expect_roots_of(client):
            self._roots.note()

    def settings_changed(self) -> None:
        """Notify the server if the owner has changed the roots that it was given."""
        if self.calls.gave_other_roots:
            self._roots.note()

    def retire(self) -> None:
        """Take no new callers, and close once the current calls have finished."""
        self._retired.set()

    def _lose(self) -> None:
        """The server closed the connection; during the handshake, the handshake fails by itself."""
        if self._rpc.value is None:
            return
        if self._users and not self.is_retired:
            self._loss = UnavailableError(self.server.name, FailureKind.LOST, "it went away")
        self._close(self._loss)
        self.retire()

    def _close(self, lost: UnavailableError | None = None) -> None:
        """Record once that the session takes no more calls."""
        if self._is_counted:
            self._is_counted = False
            self.history.record_closed(was_ready=self._rpc.value is not None, lost=lost)

    def _on_fault(self, fault: str, times: int) -> None:
        """Record a protocol violation; after too many the session is closed and opened again."""
        if self.is_retired:
            return
        self.history.record_fault(fault)
        if times >= _FAULT_LIMIT:
            self.retire()

    def lease(self) -> _Lease:
        """The RPC client, once connected; the session stays open while the block runs.

        Raises:
            UnavailableError: If connecting fails.
        """
        return _Lease(self)

    async def begin_use(self) -> RpcClient:
        """Begin a use that `end_use` ends, and return the RPC client; see `lease`."""
        self._users += 1
        try:
            return await self._rpc.wait()
        except BaseException:
            self.end_use()
            raise

    def end_use(self) -> None:
        self._users -= 1
        self._used_at = self._loop.time()
        self._unused.set()

    async def request_messages(self, rpc: RpcClient, level: str) -> None:
        """Have the server send its log messages from a level on; the most verbose one counts.

        In the newer era each call names its own level.
        """
        is_known = level in LOG_LEVELS and not rpc.info.is_modern
        if not is_known or "logging" not in rpc.info.capabilities:
            return
        if self._log_level is None or is_more_verbose(level, than=self._log_level):
            self._log_level = level
            await rpc.set_log_level(level)

    async def refreshed_info(self, rpc: RpcClient) -> ServerInfo:
        """The server info; one from an earlier connection is requested again and stored."""
        if not rpc.is_stored:
            return rpc.info
        with anyio.move_on_after(_RENEWAL):
            await rpc.refresh_info()
            await self._era.save(Era(rpc.transport.kind, rpc.info.discover))
        return rpc.info

    async def reject_stored_era(self, rpc: RpcClient, error: UpstreamError) -> bool:
        """Delete the stored era if `error` may come from it; returns whether it was deleted.

        The next session then probes the server.
        """
        is_elsewhere = isinstance(error, UnavailableError) and error.kind in _NOT_CAUSED_BY_ERA
        if rpc.is_proven or is_elsewhere:
            return False
        self.retire()
        await self._era.delete()
        return True

    async def run(self) -> None:
        """Run the session to its end; a failing server raises nothing here."""
        try:
            async with self._context.session_limiter.slot(self):
                self._is_counted = True
                self.history.record_connecting()
                async with self._context.start_limiter.slot() as connected:
                    await self._connect(connected)
        except UnavailableError as error:
            self._fail(error)
        except Exception as error:  # a faulty server must not affect the others
            logger.debug("Session of %r broke", self.server.name, exc_info=True)
            self._fail(_broken(self.server.name, error))
        finally:
            self._retired.set()
            self._rpc.fail(_closed(self.server.name))
            self.history.add_session(self.stats)
            self._close()

    def _fail(self, error: UnavailableError) -> None:
        if not self._rpc.is_settled:
            self.history.record_failure(error)
            self._rpc.fail(error)

    async def _connect(self, connected: Callable[[], None]) -> None:
        self._context.events.publish(ServerConnecting(self.server.name))
        # In threads: a keyring may ask a person, and files of the project are compared with those
        # of the approval.
        context = self._context
        resolved = await to_thread.run_sync(
            admitted_transport, self.server, context.secrets, context.admit
        )
        stored = await self._era.load()
        start = Startup(startup_timeout(self.server, is_first=stored is None))
        self.history.start = start
        strategy: ConnectStrategy | None = first_strategy(self.server, stored)
        while strategy is not None:
            strategy = await self._try(strategy, resolved, start, connected)

    async def _try(
        self,
        strategy: ConnectStrategy,
        resolved: StdioTransport | RemoteTransport,
        start: Startup,
        connected: Callable[[], None],
    ) -> ConnectStrategy | None:
        """Connect and serve; returns the next strategy if connecting failed."""
        try:
            async with self._opening(resolved, strategy) as transport:
                start.transport = transport
                if strategy.falls_back:
                    return await self._serve_either(transport, strategy, resolved, start, connected)
                info = await connect(transport, strategy.era, self.capabilities, start)
                return await self._serve_transport(transport, info, strategy, start, connected)
        except UnavailableError as failure:
            return await self._after(strategy, failure, start)

    def _opening(
        self, resolved: StdioTransport | RemoteTransport, strategy: ConnectStrategy
    ) -> AbstractAsyncContextManager[Transport]:
        callbacks = SessionCallbacks(
            self._lose, self._on_fault, self._on_notification, self._answer
        )
        return open_transport(self.server, resolved, strategy.kind, self._context, callbacks)

    async def _serve_either(
        self,
        transport: Transport,
        strategy: ConnectStrategy,
        resolved: StdioTransport | RemoteTransport,
        start: Startup,
        connected: Callable[[], None],
    ) -> ConnectStrategy | None:
        """Serve over streamable HTTP, or over SSE if that opens while nothing answers.

        Some servers of the SSE transport leave what is posted to its address unanswered.
        """
        info: ServerInfo | UnavailableError | None = None

        async def negotiate() -> None:
            nonlocal info
            with negotiating:
                info = await connect(transport, strategy.era, self.capabilities, start)
                waiting.cancel()

        negotiating = anyio.CancelScope()
        async with open_task_group() as tasks:
            with anyio.CancelScope() as waiting:
                tasks.start_soon(negotiate)
                await anyio.sleep(_SILENCE)
                other = ConnectStrategy("sse", Era("sse"))
                with suppress(UnavailableError):  # then streamable HTTP has the rest of the time
                    async with self._opening(resolved, other) as events:
                        negotiating.cancel()
                        start.transport = events
                        info = await connect(events, other.era, self.capabilities, start)
                        return await self._serve_transport(events, info, other, start, connected)
        if info is None:
            raise AssertionError("negotiated, or returned")
        return await self._serve_transport(transport, info, strategy, start, connected)

    async def _serve_transport(
        self,
        transport: Transport,
        info: ServerInfo | UnavailableError,
        strategy: ConnectStrategy,
        start: Startup,
        connected: Callable[[], None],
    ) -> ConnectStrategy | None:
        if isinstance(info, UnavailableError):
            info.was_open = True
            return await self._after(strategy, info, start)
        if not strategy.is_stored:
            await self._era.save(Era(transport.kind, info.discover))
        rpc = RpcClient(transport, info, is_stored=strategy.skips_handshake, on_proven=connected)
        self._rpc.set(rpc)
        self.history.record_ready()
        if transport.is_lost:  # while its era was stored
            self._lose()
        await self._serve(rpc)
        if transport.is_lost:
            self.history.stderr = transport.stderr
            reason = await transport.exit_reason()
            if self._loss:
                self.history.explain_loss(self._loss, reason)
        return None

    async def _after(
        self, failed: ConnectStrategy, failure: UnavailableError, start: Startup
    ) -> ConnectStrategy | None:
        is_late = failure.kind is FailureKind.TIMEOUT or start.seconds >= start.limit
        following = None if is_late else next_strategy(self.server, failed, failure)
        if failed.is_stored and (following or is_late):
            await self._era.delete()
        if (
            following is None
        ):  # reported before a program that ignores SIGTERM is killed, which takes seconds
            first = None if failure.was_open else failed.first_failure
            self._fail(first or failure)
            self.retire()
        return following

    async def _serve(self, rpc: RpcClient) -> None:
        async with anyio.create_task_group() as tasks:
            if rpc.info.is_modern and rpc.info.listenable:
                tasks.start_soon(self._listen, rpc)
            if not rpc.info.is_modern and "listChanged" in self.capabilities.get("roots", {}):
                tasks.start_soon(self._roots.announce, rpc)
            await self._wait_retired()
            while self._users:
                self._unused = anyio.Event()
                await self._unused.wait()
            tasks.cancel_scope.cancel()

    async def _wait_retired(self) -> None:
        while not self.is_retired:
            rest = self.expires_in
            if rest is None:
                rest = self._context.idle_timeout
            elif rest <= 0:
                self.retire()
            with anyio.move_on_after(min(rest, self._context.idle_timeout)):
                await self._retired.wait()

    async def _listen(self, rpc: RpcClient) -> None:
        try:
            await rpc.listen(rpc.info.listenable)
        except RpcError:
            logger.debug("%r sends no notifications of changes", self.server.name, exc_info=True)

    def _answer(self, method: str, params: JSONObject) -> RequestAnswer:
        if method == "ping":
            self._context.on_message(self.server.name, method, None)
        return self.calls.answer(method, params)

    def _on_notification(self, notification: Notification) -> None:
        self._context.on_message(self.server.name, notification.method, notification.params)
        self.changes.publish(notification)
        self.calls.notify(notification)


def _broken(server: ServerName, error: Exception) -> UnavailableError:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if is_resource_exhausted(error):
        return resources_exhausted(server, error)
    reason = f"connecting to it failed: {type(error).__name__}"
    return UnavailableError(server, FailureKind.OTHER, reason, detail=str(error))


def _closed(server: ServerName) -> UnavailableError:
    return UnavailableError(server, FailureKind.LOST, "its session was closed")
