"""One session's life: connect, serve, end.

A single task, its owner, goes through all of it, because what the SDK opens in a task must be
closed in that task. Callers come from other tasks, wait for the rpc, and send through it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
from anyio import to_thread
from mcp import ClientSession, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import ToolListChangedNotification
from msgspec import Struct

from discovery_engine._util.tasks import Promise
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, RegistryError, UnavailableError, UpstreamError
from discovery_engine.events import EventBus, ServerConnecting, ToolsChanged
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.concurrency import SessionLimiter, StartLimiter
from discovery_engine.upstream.connect_strategy import (
    ConnectStrategy,
    first_strategy,
    next_strategy,
)
from discovery_engine.upstream.connection import (
    Era,
    EraMemory,
    connection_fingerprint,
    resolved_transport,
)
from discovery_engine.upstream.handshake import (
    CLIENT_INFO,
    ServerInfo,
    adopt,
    initialize,
    negotiate,
)
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.http.http_transport import open_http_transport, open_sse_transport
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.startup import Startup, startup_timeout
from discovery_engine.upstream.state import Phase, SessionState
from discovery_engine.upstream.stdio.pipe_transport import (
    PipeTransport,
    StdioCallbacks,
    open_pipe_transport,
)
from discovery_engine.upstream.stdio.reaper import Reaper
from discovery_engine.upstream.transport import (
    Transport,
    is_resource_exhausted,
    resources_exhausted,
)
from discovery_engine.upstream.wire.scheduling import FairScheduler

_RENEWAL = 5.0  # seconds
_TOO_MANY_FAULTS = 100
_NOT_THE_ERA = {
    FailureKind.AUTH,
    FailureKind.DNS,
    FailureKind.REFUSED,
    FailureKind.TIMEOUT,
    FailureKind.TLS,
}

logger = logging.getLogger(__name__)


Admit: TypeAlias = Callable[[ServerSettings, StdioTransport | RemoteTransport], None]
"""Raises UntrustedServerError unless a server may be started or reached in just this way."""


OnStderr: TypeAlias = Callable[[ServerName, Sequence[str]], None]
"""StdioCallbacks each line that a server's program writes to its error output."""


class SessionContext(Struct, frozen=True):
    """What all sessions share."""

    events: EventBus
    eras: EraMemory
    environ: Mapping[str, str]
    starts: StartLimiter
    places: SessionLimiter
    reaper: Reaper
    scheduler: FairScheduler
    idle_timeout: float
    admit: Admit
    on_stderr: OnStderr


class Session:
    """One connection to one server, shared by its callers."""

    def __init__(
        self, server: ServerSettings, context: SessionContext, history: ServerHistory
    ) -> None:
        self.server = server
        self.history = history
        self.connection = connection_fingerprint(server)
        self._context = context
        self._rpc: Promise[RpcClient] = Promise()
        self._over = anyio.Event()
        self._unused = anyio.Event()
        self._users = 0
        self._used_at = anyio.current_time()
        self._told_of_change = False
        self._is_counted = False
        self._loss: UnavailableError | None = None

    @property
    def is_retired(self) -> bool:
        """Whether it takes no new callers; those it has are served to the end."""
        return self._over.is_set()

    @property
    def expires_in(self) -> float | None:
        """Seconds until it ends for want of callers; None while it has some."""
        if self._users:
            return None
        return self._used_at + self._context.idle_timeout - anyio.current_time()

    @property
    def state(self) -> SessionState:
        rpc = self._rpc.value
        if rpc is None:
            return SessionState(Phase.CONNECTING, users=self._users)
        version = rpc.info.version
        transport = rpc.transport
        if not isinstance(transport, PipeTransport):
            return SessionState(Phase.READY, version, self._users)
        garbage, ids = transport.reader.garbage, transport.ids
        return SessionState(
            Phase.READY,
            version,
            self._users,
            transport.child.pid,
            garbage.count,
            tuple(garbage.samples),
            ids.unsolicited,
            ids.duplicates,
            transport.child.stderr.tail,
        )

    def retire(self) -> None:
        """End it once its present callers are served."""
        self._over.set()

    def _lose(self) -> None:
        """The server went away by itself. During the handshake that is the handshake's matter."""
        if self._rpc.value is None:
            return
        if self._users and not self.is_retired:
            self._loss = UnavailableError(self.server.name, FailureKind.LOST, "it went away")
        self._close(self._loss)
        self.retire()

    def _close(self, lost: UnavailableError | None = None) -> None:
        """Tell the history, once, that nobody can use this any more."""
        if self._is_counted:
            self._is_counted = False
            self.history.record_closed(was_ready=self._rpc.value is not None, lost=lost)

    def _suspect(self, fault: str, times: int) -> None:
        """The server does what none should; one that goes on with it is started again."""
        if self.is_retired:
            return
        self.history.record_fault(fault)
        if times >= _TOO_MANY_FAULTS:
            self.retire()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[RpcClient]:
        """The rpc, once it is open; the session stays while the block runs.

        Raises:
            UnavailableError: If it cannot be opened.
        """
        self._users += 1
        try:
            yield await self._rpc.wait()
        finally:
            self._users -= 1
            self._used_at = anyio.current_time()
            self._unused.set()

    def rearm_change_event(self) -> None:
        """The tools are about to be listed: a change from now on is news again."""
        self._told_of_change = False

    async def refreshed_info(self, rpc: RpcClient) -> ServerInfo:
        """The info; one that was only remembered is asked for again, and kept if new."""
        if not rpc.is_remembered:
            return rpc.info
        with anyio.move_on_after(_RENEWAL):
            await rpc.refresh_info()
            await self._remember(Era(rpc.transport.kind, rpc.info.discover))
        return rpc.info

    async def reject_stored_era(self, rpc: RpcClient, error: UpstreamError) -> bool:
        """Whether `error` may come from a wrong memory of what the server speaks.

        If so the memory is dropped, and the next session asks the server.
        """
        is_elsewhere = isinstance(error, UnavailableError) and error.kind in _NOT_THE_ERA
        if rpc.is_proven or is_elsewhere:
            return False
        self.retire()
        await self._remember(None)
        return True

    async def run(self) -> None:
        """The owner's task; whatever the server does, it ends without an error."""
        try:
            async with self._context.places.slot(self):
                self._is_counted = True
                self.history.record_connecting()
                async with self._context.starts.slot() as connected:
                    await self._live(connected)
        except UnavailableError as error:
            self._fail(error)
        except Exception as error:  # a stranger's server must not take its neighbours along
            logger.debug("Session of %r broke", self.server.name, exc_info=True)
            self._fail(_broken(self.server.name, error))
        finally:
            self._over.set()
            self._rpc.fail(_closed(self.server.name))
            self.history.add_session(self.state)
            self._close()

    def _fail(self, error: UnavailableError) -> None:
        if not self._rpc.is_settled:
            self.history.record_failure(error)
            self._rpc.fail(error)

    async def _live(self, connected: Callable[[], None]) -> None:
        self._context.events.publish(ServerConnecting(self.server.name))
        resolved = resolved_transport(self.server, self._context.environ)
        # In a thread: files of what was found are read, to see whether they are as approved.
        await to_thread.run_sync(self._context.admit, self.server, resolved)
        remembered = await self._recall()
        start = Startup(startup_timeout(self.server, is_first=remembered is None))
        self.history.start = start
        attempt: ConnectStrategy | None = first_strategy(self.server, remembered)
        while attempt is not None:
            attempt = await self._try(attempt, resolved, start, connected)

    async def _try(
        self,
        attempt: ConnectStrategy,
        resolved: StdioTransport | RemoteTransport,
        start: Startup,
        connected: Callable[[], None],
    ) -> ConnectStrategy | None:
        """Connect and serve; returns what to try next if the connect failed."""
        try:
            async with self._open_transport(attempt, resolved) as transport:
                return await self._hold(transport, attempt, start, connected)
        except UnavailableError as failure:
            return await self._after(attempt, failure, start)

    async def _hold(
        self,
        transport: Transport,
        attempt: ConnectStrategy,
        start: Startup,
        connected: Callable[[], None],
    ) -> ConnectStrategy | None:
        start.transport = transport
        dispatcher = transport.dispatcher()
        async with ClientSession(
            dispatcher=dispatcher, client_info=CLIENT_INFO, message_handler=self._on_message
        ) as session:
            info = await self._greeting(session, dispatcher, transport, attempt.era, start)
            if isinstance(info, UnavailableError):
                return await self._after(attempt, info, start)
            if not attempt.is_remembered:
                await self._remember(Era(transport.kind, info.discover))
            rpc = RpcClient(
                transport,
                dispatcher,
                info,
                is_remembered=attempt.skips_handshake,
                on_proven=connected,
            )
            self._rpc.set(rpc)
            self.history.record_ready()
            if transport.is_lost:  # while its era was written down
                self._lose()
            await self._serve(session, info)
            if transport.is_lost:
                self.history.stderr = transport.stderr
                reason = await transport.exit_reason()
                if self._loss:
                    self.history.explain_loss(self._loss, reason)
        return None

    async def _greeting(
        self,
        session: ClientSession,
        dispatcher: JSONRPCDispatcher,
        transport: Transport,
        era: Era | None,
        start: Startup,
    ) -> ServerInfo | UnavailableError:
        # Errors are returned, so that the task groups around this do not wrap them.
        try:
            with anyio.fail_after(start.limit - start.seconds):
                if era is None:
                    return await negotiate(session, dispatcher)
                return adopt(session, era.discover) or await initialize(session)
        except TimeoutError:
            return transport.timeout_error(start.limit)
        except (MCPError, RuntimeError, ValueError) as error:
            return await transport.connect_error(error)

    async def _after(
        self, failed: ConnectStrategy, failure: UnavailableError, start: Startup
    ) -> ConnectStrategy | None:
        is_late = failure.kind is FailureKind.TIMEOUT or start.seconds >= start.limit
        following = None if is_late else next_strategy(self.server, failed, failure)
        if failed.is_remembered and (following or is_late):
            await self._remember(None)
        if following is None:  # told before the slow goodbye to a stubborn program
            self._fail(failed.first_failure or failure)
            self.retire()
        return following

    async def _serve(self, session: ClientSession, info: ServerInfo) -> None:
        async with anyio.create_task_group() as tasks:
            if info.is_modern and info.list_changed:
                tasks.start_soon(self._listen, session)
            await self._until_over()
            while self._users:
                self._unused = anyio.Event()
                await self._unused.wait()
            tasks.cancel_scope.cancel()

    async def _until_over(self) -> None:
        while not self.is_retired:
            rest = self.expires_in
            if rest is None:
                rest = self._context.idle_timeout
            elif rest <= 0:
                self.retire()
            with anyio.move_on_after(rest):
                await self._over.wait()

    async def _listen(self, session: ClientSession) -> None:
        try:
            async with listen(session, tools_list_changed=True) as changes:
                async for _ in changes:
                    self._tell_of_change()
        except (MCPError, ListenNotSupportedError, SubscriptionLost):
            logger.debug("%r does not tell of changes", self.server.name, exc_info=True)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._tell_of_change()

    def _tell_of_change(self) -> None:
        if not self._told_of_change:
            self._told_of_change = True
            self._context.events.publish(ToolsChanged(self.server.name))

    def _open_transport(
        self, attempt: ConnectStrategy, resolved: StdioTransport | RemoteTransport
    ) -> AbstractAsyncContextManager[Transport]:
        context, name, timeouts = self._context, self.server.name, self.server.timeouts
        limit = self.server.limits.answer_bytes
        match resolved:
            case StdioTransport():
                return open_pipe_transport(
                    name,
                    resolved,
                    context.environ,
                    context.reaper,
                    context.scheduler,
                    limit=limit,
                    told=StdioCallbacks(
                        self._lose, self._suspect, partial(context.on_stderr, name)
                    ),
                )
            case RemoteTransport() if attempt.kind == "sse":
                return open_sse_transport(
                    name, resolved, timeouts, context.scheduler, limit=limit, on_lost=self._lose
                )
            case RemoteTransport():
                return open_http_transport(name, resolved, timeouts, context.scheduler, limit=limit)

    async def _recall(self) -> Era | None:
        try:
            recall = self._context.eras.recall_era
            return Era.from_json(await to_thread.run_sync(recall, self.connection))
        except RegistryError:
            logger.warning("What %r speaks cannot be recalled", self.server.name, exc_info=True)
            return None

    async def _remember(self, era: Era | None) -> None:
        remember = partial(self._context.eras.remember_era, self.connection)
        try:
            said = KNOWN_SECRETS.redact_json(era.to_json()) if era else None
            await to_thread.run_sync(remember, said)
        except RegistryError:
            logger.warning("What %r speaks is not remembered", self.server.name, exc_info=True)


def _broken(server: ServerName, error: Exception) -> UnavailableError:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if is_resource_exhausted(error):
        return resources_exhausted(server, error)
    reason = f"connecting to it failed: {type(error).__name__}"
    return UnavailableError(server, FailureKind.OTHER, reason, detail=str(error))


def _closed(server: ServerName) -> UnavailableError:
    return UnavailableError(server, FailureKind.LOST, "its session was closed")
