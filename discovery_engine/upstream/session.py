"""One session's life: connect, serve, end.

A single task, its owner, goes through all of it, because what the SDK opens in a task must be
closed in that task. Callers come from other tasks, wait for the channel, and send through it.
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
from discovery_engine.upstream.attempt import Attempt, first_attempt, next_attempt
from discovery_engine.upstream.channel import Channel
from discovery_engine.upstream.connection import (
    Era,
    EraMemory,
    connection_fingerprint,
    resolved_transport,
)
from discovery_engine.upstream.handshake import CLIENT_INFO, Greeting, adopt, greet, initialize
from discovery_engine.upstream.http.link import open_http_link, open_sse_link
from discovery_engine.upstream.link import Link, is_out_of_room, no_room
from discovery_engine.upstream.record import Record
from discovery_engine.upstream.slots import Places, Starts
from discovery_engine.upstream.start import Start, start_limit
from discovery_engine.upstream.state import Phase, SessionState
from discovery_engine.upstream.stdio.link import StdioLink, Told, open_stdio_link
from discovery_engine.upstream.stdio.reaper import Reaper
from discovery_engine.upstream.wire.pace import Pace

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


Overhear: TypeAlias = Callable[[ServerName, Sequence[str]], None]
"""Told each line that a server's program writes to its error output."""


class Surroundings(Struct, frozen=True):
    """What all sessions share."""

    events: EventBus
    eras: EraMemory
    environ: Mapping[str, str]
    starts: Starts
    places: Places
    reaper: Reaper
    pace: Pace
    idle_timeout: float
    admit: Admit
    overhear: Overhear


class Session:
    """One connection to one server, shared by its callers."""

    def __init__(self, server: ServerSettings, around: Surroundings, record: Record) -> None:
        self.server = server
        self.record = record
        self.connection = connection_fingerprint(server)
        self._around = around
        self._channel: Promise[Channel] = Promise()
        self._over = anyio.Event()
        self._unused = anyio.Event()
        self._users = 0
        self._used_at = anyio.current_time()
        self._told_of_change = False
        self._is_counted = False
        self._loss: UnavailableError | None = None

    @property
    def is_over(self) -> bool:
        """Whether it takes no new callers; those it has are served to the end."""
        return self._over.is_set()

    @property
    def expires_in(self) -> float | None:
        """Seconds until it ends for want of callers; None while it has some."""
        if self._users:
            return None
        return self._used_at + self._around.idle_timeout - anyio.current_time()

    @property
    def state(self) -> SessionState:
        channel = self._channel.value
        if channel is None:
            return SessionState(Phase.CONNECTING, users=self._users)
        version = channel.greeting.version
        link = channel.link
        if not isinstance(link, StdioLink):
            return SessionState(Phase.READY, version, self._users)
        garbage, ids = link.reader.garbage, link.ids
        return SessionState(
            Phase.READY,
            version,
            self._users,
            link.child.pid,
            garbage.count,
            tuple(garbage.samples),
            ids.strays,
            ids.duplicates,
            link.child.errors.tail,
        )

    def retire(self) -> None:
        """End it once its present callers are served."""
        self._over.set()

    def _lose(self) -> None:
        """The server went away by itself. During the handshake that is the handshake's matter."""
        if self._channel.value is None:
            return
        if self._users and not self.is_over:
            self._loss = UnavailableError(self.server.name, FailureKind.LOST, "it went away")
        self._close(self._loss)
        self.retire()

    def _close(self, lost: UnavailableError | None = None) -> None:
        """Tell the record, once, that nobody can use this any more."""
        if self._is_counted:
            self._is_counted = False
            self.record.closed(was_ready=self._channel.value is not None, lost=lost)

    def _suspect(self, fault: str, times: int) -> None:
        """The server does what none should; one that goes on with it is started again."""
        if self.is_over:
            return
        self.record.strayed(fault)
        if times >= _TOO_MANY_FAULTS:
            self.retire()

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[Channel]:
        """The channel, once it is open; the session stays while the block runs.

        Raises:
            UnavailableError: If it cannot be opened.
        """
        self._users += 1
        try:
            yield await self._channel.wait()
        finally:
            self._users -= 1
            self._used_at = anyio.current_time()
            self._unused.set()

    def expect_changes(self) -> None:
        """The tools are about to be listed: a change from now on is news again."""
        self._told_of_change = False

    async def renewed_greeting(self, channel: Channel) -> Greeting:
        """The greeting; one that was only remembered is asked for again, and kept if new."""
        if not channel.is_remembered:
            return channel.greeting
        with anyio.move_on_after(_RENEWAL):
            await channel.renew()
            await self._remember(Era(channel.link.carrier, channel.greeting.discover))
        return channel.greeting

    async def doubt(self, channel: Channel, error: UpstreamError) -> bool:
        """Whether `error` may come from a wrong memory of what the server speaks.

        If so the memory is dropped, and the next session asks the server.
        """
        is_elsewhere = isinstance(error, UnavailableError) and error.kind in _NOT_THE_ERA
        if channel.is_proven or is_elsewhere:
            return False
        self.retire()
        await self._remember(None)
        return True

    async def run(self) -> None:
        """The owner's task; whatever the server does, it ends without an error."""
        try:
            async with self._around.places.held(self):
                self._is_counted = True
                self.record.connecting()
                async with self._around.starts.turn() as connected:
                    await self._live(connected)
        except UnavailableError as error:
            self._fail(error)
        except Exception as error:  # a stranger's server must not take its neighbours along
            logger.debug("Session of %r broke", self.server.name, exc_info=True)
            self._fail(_broken(self.server.name, error))
        finally:
            self._over.set()
            self._channel.fail(_closed(self.server.name))
            self.record.absorb(self.state)
            self._close()

    def _fail(self, error: UnavailableError) -> None:
        if not self._channel.is_settled:
            self.record.failed(error)
            self._channel.fail(error)

    async def _live(self, connected: Callable[[], None]) -> None:
        self._around.events.publish(ServerConnecting(self.server.name))
        transport = resolved_transport(self.server, self._around.environ)
        # In a thread: files of what was found are read, to see whether they are as approved.
        await to_thread.run_sync(self._around.admit, self.server, transport)
        remembered = await self._recall()
        start = Start(start_limit(self.server, is_first=remembered is None))
        self.record.start = start
        attempt: Attempt | None = first_attempt(self.server, remembered)
        while attempt is not None:
            attempt = await self._try(attempt, transport, start, connected)

    async def _try(
        self,
        attempt: Attempt,
        transport: StdioTransport | RemoteTransport,
        start: Start,
        connected: Callable[[], None],
    ) -> Attempt | None:
        """Connect and serve; returns what to try next if the connect failed."""
        try:
            async with self._open_link(attempt, transport) as link:
                return await self._hold(link, attempt, start, connected)
        except UnavailableError as failure:
            return await self._after(attempt, failure, start)

    async def _hold(
        self, link: Link, attempt: Attempt, start: Start, connected: Callable[[], None]
    ) -> Attempt | None:
        start.link = link
        dispatcher = link.dispatcher()
        async with ClientSession(
            dispatcher=dispatcher, client_info=CLIENT_INFO, message_handler=self._on_message
        ) as session:
            greeting = await self._greeting(session, dispatcher, link, attempt.era, start)
            if isinstance(greeting, UnavailableError):
                return await self._after(attempt, greeting, start)
            if not attempt.is_remembered:
                await self._remember(Era(link.carrier, greeting.discover))
            channel = Channel(
                link, dispatcher, greeting, is_remembered=attempt.is_adopted, on_proven=connected
            )
            self._channel.set(channel)
            self.record.ready()
            if link.is_lost:  # while its era was written down
                self._lose()
            await self._serve(session, greeting)
            if link.is_lost:
                self.record.stderr = link.stderr
                reason = await link.end()
                if self._loss:
                    self.record.explain(self._loss, reason)
        return None

    async def _greeting(
        self,
        session: ClientSession,
        dispatcher: JSONRPCDispatcher,
        link: Link,
        era: Era | None,
        start: Start,
    ) -> Greeting | UnavailableError:
        # Errors are returned, so that the task groups around this do not wrap them.
        try:
            with anyio.fail_after(start.limit - start.seconds):
                if era is None:
                    return await greet(session, dispatcher)
                return adopt(session, era.discover) or await initialize(session)
        except TimeoutError:
            return link.silence(start.limit)
        except (MCPError, RuntimeError, ValueError) as error:
            return await link.failure(error)

    async def _after(
        self, failed: Attempt, failure: UnavailableError, start: Start
    ) -> Attempt | None:
        is_late = failure.kind is FailureKind.TIMEOUT or start.seconds >= start.limit
        following = None if is_late else next_attempt(self.server, failed, failure)
        if failed.is_remembered and (following or is_late):
            await self._remember(None)
        if following is None:  # told before the slow goodbye to a stubborn program
            self._fail(failed.first_failure or failure)
            self.retire()
        return following

    async def _serve(self, session: ClientSession, greeting: Greeting) -> None:
        async with anyio.create_task_group() as tasks:
            if greeting.is_modern and greeting.announces_changes:
                tasks.start_soon(self._listen, session)
            await self._until_over()
            while self._users:
                self._unused = anyio.Event()
                await self._unused.wait()
            tasks.cancel_scope.cancel()

    async def _until_over(self) -> None:
        while not self.is_over:
            rest = self.expires_in
            if rest is None:
                rest = self._around.idle_timeout
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
            self._around.events.publish(ToolsChanged(self.server.name))

    def _open_link(
        self, attempt: Attempt, transport: StdioTransport | RemoteTransport
    ) -> AbstractAsyncContextManager[Link]:
        around, name, timeouts = self._around, self.server.name, self.server.timeouts
        limit = self.server.limits.answer_bytes
        match transport:
            case StdioTransport():
                return open_stdio_link(
                    name,
                    transport,
                    around.environ,
                    around.reaper,
                    around.pace,
                    limit=limit,
                    told=Told(self._lose, self._suspect, partial(around.overhear, name)),
                )
            case RemoteTransport() if attempt.carrier == "sse":
                return open_sse_link(
                    name, transport, timeouts, around.pace, limit=limit, on_lost=self._lose
                )
            case RemoteTransport():
                return open_http_link(name, transport, timeouts, around.pace, limit=limit)

    async def _recall(self) -> Era | None:
        try:
            recall = self._around.eras.recall_era
            return Era.from_json(await to_thread.run_sync(recall, self.connection))
        except RegistryError:
            logger.warning("What %r speaks cannot be recalled", self.server.name, exc_info=True)
            return None

    async def _remember(self, era: Era | None) -> None:
        remember = partial(self._around.eras.remember_era, self.connection)
        try:
            said = KNOWN_SECRETS.redact_json(era.to_json()) if era else None
            await to_thread.run_sync(remember, said)
        except RegistryError:
            logger.warning("What %r speaks is not remembered", self.server.name, exc_info=True)


def _broken(server: ServerName, error: Exception) -> UnavailableError:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if is_out_of_room(error):
        return no_room(server, error)
    reason = f"connecting to it failed: {type(error).__name__}"
    return UnavailableError(server, FailureKind.OTHER, reason, detail=str(error))


def _closed(server: ServerName) -> UnavailableError:
    return UnavailableError(server, FailureKind.LOST, "its session was closed")
