"""The life of one session, in one task: connect, serve, close.

Task groups must be closed in the task that opened them, so one task opens the transport, tries the
other transport and the other era if need be, and closes what it opened.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from anyio import to_thread

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.events import ServerConnecting
from discovery_engine.rpc.messages import RpcError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import Era, admitted_transport
from discovery_engine.upstream.handshake import (
    ConnectStrategy,
    ServerInfo,
    Startup,
    connect,
    first_strategy,
    next_strategy,
    startup_timeout,
)
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.transport import (
    Transport,
    is_resource_exhausted,
    resources_exhausted,
)
from discovery_engine.upstream.transport_opening import SessionContext, open_transport

_SILENCE = 3.0  # seconds without an answer after which another transport is tried as well

logger = logging.getLogger(__name__)


class SessionTask:
    """Runs a session to its end."""

    _connected: Callable[[], None]
    """Called when the server has answered."""
    _resolved: StdioTransport | RemoteTransport
    _start: Startup

    def __init__(self, session: Session, context: SessionContext, limiter: SessionLimiter) -> None:
        self._session = session
        self._context = context
        self._limiter = limiter
        self._server = session.server

    async def run(self) -> None:
        """Run the session to its end; a failing server raises nothing here."""
        try:
            async with self._limiter.slot(self._session):
                self._session.begin()
                async with self._context.start_limiter.slot() as self._connected:
                    await self._connect()
        except UnavailableError as error:
            self._session.fail(error)
        except Exception as error:  # a faulty server must not affect the others
            logger.debug("Session of %r broke", self._server.name, exc_info=True)
            self._session.fail(_broken(self._server.name, error))
        finally:
            self._session.end()

    async def _connect(self) -> None:
        self._context.events.publish(ServerConnecting(self._server.name))
        # In threads: a keyring may ask a person, and files of the project are compared with those
        # of the approval.
        context = self._context
        self._resolved = await to_thread.run_sync(
            admitted_transport, self._server, context.secrets, context.admit
        )
        stored = await self._session.era.load()
        self._start = Startup(startup_timeout(self._server, is_first=stored is None))
        self._session.history.start = self._start
        strategy: ConnectStrategy | None = first_strategy(self._server, stored)
        while strategy is not None:
            strategy = await self._try(strategy)

    async def _try(self, strategy: ConnectStrategy) -> ConnectStrategy | None:
        """Connect and serve; returns the next strategy if connecting failed."""
        try:
            async with self._opening(strategy) as transport:
                self._start.transport = transport
                if strategy.falls_back:
                    return await self._serve_either(transport, strategy)
                info = await self._negotiate(transport, strategy)
                return await self._serve_transport(transport, info, strategy)
        except UnavailableError as failure:
            return await self._after(strategy, failure)

    def _opening(self, strategy: ConnectStrategy) -> AbstractAsyncContextManager[Transport]:
        callbacks = self._session.callbacks
        return open_transport(self._server, self._resolved, strategy.kind, self._context, callbacks)

    async def _negotiate(
        self, transport: Transport, strategy: ConnectStrategy
    ) -> ServerInfo | UnavailableError:
        return await connect(transport, strategy.era, self._session.capabilities, self._start)

    async def _serve_either(
        self, transport: Transport, strategy: ConnectStrategy
    ) -> ConnectStrategy | None:
        """Serve over streamable HTTP, or over SSE if that opens while nothing answers.

        Some servers of the SSE transport leave what is posted to its address unanswered.
        """
        info: ServerInfo | UnavailableError | None = None

        async def negotiate() -> None:
            nonlocal info
            with negotiating:
                info = await self._negotiate(transport, strategy)
                waiting.cancel()

        negotiating = anyio.CancelScope()
        async with open_task_group() as tasks:
            with anyio.CancelScope() as waiting:
                tasks.start_soon(negotiate)
                await anyio.sleep(_SILENCE)
                other = ConnectStrategy("sse", Era("sse"))
                with suppress(UnavailableError):  # then streamable HTTP has the rest of the time
                    async with self._opening(other) as events:
                        negotiating.cancel()
                        self._start.transport = events
                        info = await self._negotiate(events, other)
                        return await self._serve_transport(events, info, other)
        if info is None:
            raise AssertionError("negotiated, or returned")
        return await self._serve_transport(transport, info, strategy)

    async def _serve_transport(
        self,
        transport: Transport,
        info: ServerInfo | UnavailableError,
        strategy: ConnectStrategy,
    ) -> ConnectStrategy | None:
        if isinstance(info, UnavailableError):
            info.was_open = True
            return await self._after(strategy, info)
        if not strategy.is_stored:
            await self._session.era.save(Era(transport.kind, info.discover))
        rpc = RpcClient(
            transport, info, is_stored=strategy.skips_handshake, on_proven=self._connected
        )
        self._session.open(rpc)
        await self._serve(rpc)
        if transport.is_lost:
            await self._session.explain_loss(transport)
        return None

    async def _after(
        self, failed: ConnectStrategy, failure: UnavailableError
    ) -> ConnectStrategy | None:
        """The next strategy after one that failed; None ends the session."""
        start = self._start
        is_late = failure.kind is FailureKind.TIMEOUT or start.seconds >= start.limit
        following = None if is_late else next_strategy(self._server, failed, failure)
        if failed.is_stored and (following or is_late):
            await self._session.era.delete()
        if following is None:
            # Reported before a program that ignores SIGTERM is killed, which takes seconds.
            first = None if failure.was_open else failed.first_failure
            self._session.fail(first or failure)
            self._session.retire()
        return following

    async def _serve(self, rpc: RpcClient) -> None:
        """Serve until the session is retired and has no callers."""
        session = self._session
        async with anyio.create_task_group() as tasks:
            if rpc.is_modern and rpc.info.listenable:
                tasks.start_soon(self._listen, rpc)
            if not rpc.is_modern and "listChanged" in session.capabilities.get("roots", {}):
                tasks.start_soon(session.roots.announce, rpc.notify)
            await self._retire_when_idle()
            await session.wait_unused()
            tasks.cancel_scope.cancel()

    async def _retire_when_idle(self) -> None:
        """Wait until the session is retired, and retire it when it is idle for too long."""
        session, longest = self._session, self._context.idle_timeout
        while not session.is_retired:
            rest = session.expires_in
            if rest is None:
                rest = longest
            elif rest <= 0:
                session.retire()
            with anyio.move_on_after(min(rest, longest)):
                await session.wait_retired()

    async def _listen(self, rpc: RpcClient) -> None:
        try:
            await rpc.listen(rpc.info.listenable)
        except RpcError:
            logger.debug("%r sends no notifications of changes", self._server.name, exc_info=True)


def _broken(server: ServerName, error: Exception) -> UnavailableError:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if is_resource_exhausted(error):
        return resources_exhausted(server, error)
    reason = f"connecting to it failed: {type(error).__name__}"
    return UnavailableError(server, FailureKind.OTHER, reason, detail=str(error))


class SessionLimiter:
    """Bounds the sessions of servers with `session: per_client`, per server and in total.

    A session holds its slot until its program has exited, so there are never more programs than
    slots, however quickly clients come and go.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._held: list[Session] = []
        self._released = anyio.Event()

    @asynccontextmanager
    async def slot(self, session: Session) -> AsyncIterator[None]:
        """Hold a slot for the life of a session.

        Raises:
            UnavailableError: If all are in use and no session is about to end.
        """
        if session.server.session != "per_client":
            yield
            return
        await self._wait_for_slot(session.server)
        self._held.append(session)
        try:
            yield
        finally:
            self._held.remove(session)
            self._released.set()
            self._released = anyio.Event()

    async def _wait_for_slot(self, server: ServerSettings) -> None:
        with anyio.move_on_after(server.timeouts.connect):
            while holders := self._holders(server):
                if not any(holder.is_retired for holder in holders):
                    break
                await self._released.wait()
        if holders := self._holders(server):
            raise self._limit_error(server, holders)

    def _holders(self, server: ServerSettings) -> list[Session]:
        """The sessions of which one must end first; empty if a slot is free."""
        own = [held for held in self._held if held.server.name == server.name]
        if len(own) >= server.limits.sessions:
            return own
        return self._held if len(self._held) >= self._total else []

    def _limit_error(self, server: ServerSettings, holders: list[Session]) -> UnavailableError:
        if holders is self._held:
            reason = f"clients have {len(holders)} sessions of their own with all servers"
            setting = "`server.maxOwnSessions`"
        else:
            reason = f"{len(holders)} clients have a session of their own with it"
            setting = f"`limits.sessions` of server {server.name!r}"
        error = UnavailableError(
            server.name,
            FailureKind.BUSY,
            f"{reason}, which is the most",
            hint=f"try again when one of them has ended, or raise {setting}",
        )
        waits = [wait for holder in holders if (wait := holder.expires_in) is not None]
        error.retry_after = max(1.0, min(waits, default=1.0))
        return error
