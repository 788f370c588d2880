"""The door to the upstreams: list their tools, call them.

Sessions are opened when first needed, shared, closed when idle, and opened again. A call is sent
once; only one that the server provably did not take up is sent a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import EventBus, ServerDiscovering
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.channel import Channel, OnProgress
from discovery_engine.upstream.connection import EraMemory
from discovery_engine.upstream.failures import NotTakenUp, failed_call, failed_listing
from discovery_engine.upstream.listing import (
    Listing,
    Pages,
    in_batches,
    is_deeper,
    read_pages,
    sort_out,
)
from discovery_engine.upstream.patience import Patience
from discovery_engine.upstream.record import Policy, Record
from discovery_engine.upstream.session import Admit, Overhear, Session, Surroundings
from discovery_engine.upstream.slots import Full, Places, Slots, Starts
from discovery_engine.upstream.state import Condition, SessionState
from discovery_engine.upstream.stdio.reaper import open_reaper
from discovery_engine.upstream.wire.pace import Pace

__all__ = ["OnProgress", "Overhear", "Upstreams", "open_upstreams"]

T = TypeVar("T")
SessionKey: TypeAlias = tuple[ServerName, str | None]
"""A server and whose session it is; None for one that no single client has called in."""
HeaderMap: TypeAlias = Mapping[tuple[str, ...], str]

_SOLE_CLIENT = ""  # of a transport that has but one
_MAX_RESULT_DEPTH = 100  # beyond it, whoever writes the result as JSON again may give up
_NEVER_EXECUTED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND)


@asynccontextmanager
async def open_upstreams(
    *,
    max_connecting: int,
    idle_timeout: float,
    events: EventBus,
    eras: EraMemory,
    environ: Mapping[str, str],
    admit: Admit,
    overhear: Overhear = lambda _server, _lines: None,
    policy: Policy = Policy(),  # noqa: B008 - frozen
) -> AsyncIterator[Upstreams]:
    """Yield the upstreams; on exit every session is closed and every program ended.

    Args:
        max_connecting: How many servers start at the same time.
        idle_timeout: Seconds without a call after which a session is closed.
        events: Where connects, listings and changes of tools are told.
        eras: Where it is remembered what each server speaks.
        environ: Where references are looked up; programs inherit a harmless part of it.
        admit: The gate: asked before anything is started or reached, each time.
        overhear: Told the lines that a program writes to its error output.
        policy: How many calls and clients' own sessions there may be, and the clock of retries.
    """
    async with open_reaper() as reaper, open_task_group() as tasks:
        around = Surroundings(
            events,
            eras,
            environ,
            Starts(max_connecting),
            Places(policy.own_sessions),
            reaper,
            Pace(),
            idle_timeout,
            admit,
            overhear,
        )
        yield Upstreams(around, tasks, policy)
        tasks.cancel_scope.cancel()


class Upstreams:
    """Made by `open_upstreams`, which owns the tasks that the sessions live in."""

    def __init__(self, around: Surroundings, tasks: TaskGroup, policy: Policy) -> None:
        self._around = around
        self._tasks = tasks
        self._policy = policy
        self._records: dict[ServerName, Record] = {}
        self._everywhere = anyio.Semaphore(policy.everywhere, fast_acquire=True)
        self._sessions: dict[SessionKey, Session] = {}
        self._headers: dict[str, Mapping[str, HeaderMap]] = {}

    def states(self) -> Mapping[ServerName, SessionState]:
        """The servers with a live session; where each client has its own, the newest one."""
        live = {name: s for (name, _), s in self._sessions.items() if not s.is_over}
        return {name: session.state for name, session in live.items()}

    @property
    def records(self) -> Mapping[ServerName, Record]:
        """What is known of every server that was ever asked for anything."""
        return self._records

    def conditions(self) -> Mapping[ServerName, Condition]:
        """How every server fares that was ever asked for anything; reads all they wrote last."""
        live = {name: session.state for (name, _), session in self._sessions.items()}
        return {name: record.condition(live.get(name)) for name, record in self._records.items()}

    def insist(self, server: ServerName) -> None:
        """Let the next request to a server through, although it failed only just before."""
        if record := self._records.get(server):
            record.insist()

    async def close(self, server: ServerName) -> None:
        """End a server's sessions after their present calls; no-op if there is none."""
        for (name, _), session in self._sessions.items():
            if name == server:
                session.retire()

    def close_client(self, client: str) -> None:
        """End a client's own sessions after its present calls; no-op if there is none."""
        for (_, whose), session in self._sessions.items():
            if whose == client:
                session.retire()

    async def list_tools(self, server: ServerSettings) -> Listing:
        """All tools of a server, connected first if need be.

        Raises:
            UnavailableError: If it cannot be connected, or goes away.
            UpstreamTimeoutError: If it does not list in time.
            UpstreamProtocolError: If it refuses to, or answers something else.
        """
        with self._record(server).attempt():
            return await _at_most_twice(lambda: self._list(server))

    async def call(
        self,
        server: ServerSettings,
        tool: str,
        arguments: JSONObject,
        *,
        client: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """The whole raw result of a tool, which is called by the server's own name for it.

        Args:
            server: Whose tool it is; connected first if need be.
            tool: Its name.
            arguments: What it is called with; nothing is checked here.
            client: Who calls; with `session: per_client` each has a session of its own.
            on_progress: Told what the tool says of its progress.

        Raises:
            UnavailableError: If the server cannot be connected or reached, is not to be tried
                yet, or is busy with too many calls; `retry_after` then says when to try again.
            OutcomeUnknownError: If it goes away during the call.
            UpstreamTimeoutError: If it does not answer in time; it is told to stop.
            UpstreamProtocolError: If it refuses the call, or its answer cannot be read.
        """
        record = self._record(server)
        record.counters.calls += 1
        with record.attempt() if record.is_in_doubt else nullcontext():
            slots = await _slot(record, server)
            try:
                return await _at_most_twice(
                    lambda: self._call(
                        server, tool, arguments, client=client, on_progress=on_progress
                    )
                )
            finally:
                slots.release()

    async def _list(self, server: ServerSettings) -> Listing:
        session = self._listing_session(server)
        async with session.in_use() as channel:
            self._around.events.publish(ServerDiscovering(server.name))
            session.expect_changes()
            pages = await self._pages(server, session, channel)
            session.record.answered()
            greeting = await session.renewed_greeting(channel)
        find_fault = find_invalid_header if greeting.is_modern else _no_fault
        tools, dropped = await sort_out(pages.definitions, find_fault=find_fault)
        self._headers[session.connection] = await header_maps(tools) if greeting.is_modern else {}
        return Listing(
            tools, dropped, greeting.instructions, pages.ttl, session.connection, pages.cut
        )

    async def _pages(self, server: ServerSettings, session: Session, channel: Channel) -> Pages:
        seconds = server.timeouts.list
        try:
            return await read_pages(channel.list_page, seconds=seconds)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and channel.is_proven:
                return Pages()  # a server without tools need not know the request
            told = await failed_listing(channel.link, error)
            if channel.link.wants_new_session(error):
                session.retire()
                raise NotTakenUp(told) from error
            await _note_failure(session.record, channel, told, error)
        except TimeoutError:
            told = UpstreamTimeoutError(server.name, "tools/list", seconds)
            session.record.timed_out("tools/list", seconds)
        except ValueError as error:
            told = UpstreamProtocolError(server.name, str(error), PARSE_ERROR)
        raise NotTakenUp(told) if await session.doubt(channel, told) else told

    async def _call(
        self,
        server: ServerSettings,
        tool: str,
        arguments: JSONObject,
        *,
        client: str | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        session = self._calling_session(server, client)
        async with session.in_use() as channel:
            headers = self._parameter_headers(session, tool, arguments)
            patience = Patience(server.timeouts.call, on_progress)
            try:
                async with self._everywhere:
                    with patience:
                        result = await channel.call(
                            tool, arguments, headers=headers, on_progress=patience.on_progress
                        )
            except TimeoutError:
                told = UpstreamTimeoutError(server.name, repr(tool), patience.seconds)
                session.record.timed_out(repr(tool), patience.seconds)
                await session.doubt(channel, told)
                raise told from None
            except MCPError as error:
                raise await self._why(session, channel, tool, error) from error
            except ValueError as error:
                raise UpstreamProtocolError(server.name, str(error), INVALID_PARAMS) from error
        if await is_deeper(result, limit=_MAX_RESULT_DEPTH):
            reason = f"its answer nests more than {_MAX_RESULT_DEPTH} levels deep"
            raise UpstreamProtocolError(server.name, reason, PARSE_ERROR)
        session.record.answered()
        return result

    async def _why(
        self, session: Session, channel: Channel, tool: str, error: MCPError
    ) -> UpstreamError | NotTakenUp:
        """What to raise for a failed call."""
        told = await failed_call(channel.link, tool, error)
        if channel.link.wants_new_session(error):
            session.retire()
            return NotTakenUp(told)
        if error.code == HEADER_MISMATCH and session.connection not in self._headers:
            await self._list(session.server)  # now it is known which arguments go into headers
            return NotTakenUp(told)
        if await session.doubt(channel, told) and error.code in _NEVER_EXECUTED:
            return NotTakenUp(told)
        await _note_failure(session.record, channel, told, error)
        return told

    def _record(self, server: ServerSettings) -> Record:
        if (record := self._records.get(server.name)) is None:
            record = Record(server, self._around.events, self._policy)
            self._records[server.name] = record
        record.configured(server)
        return record

    def _parameter_headers(
        self, session: Session, tool: str, arguments: JSONObject
    ) -> dict[str, str]:
        header_map = self._headers.get(session.connection, {}).get(tool)
        return mcp_param_headers(header_map, arguments) if header_map else {}

    def _listing_session(self, server: ServerSettings) -> Session:
        """Any session there is: listing leaves no trace in it, and a start costs seconds."""
        for (name, _), session in self._sessions.items():
            if name == server.name and _serves(session, server):
                return session
        return self._session((server.name, None), server)

    def _calling_session(self, server: ServerSettings, client: str | None) -> Session:
        """The one that all share, or the client's own.

        A client without one takes over the session in which only tools were listed so far.
        """
        shared: SessionKey = (server.name, None)
        if server.session != "per_client":
            return self._session(shared, server)
        own: SessionKey = (server.name, client or _SOLE_CLIENT)
        spare = self._sessions.get(shared)
        if own not in self._sessions and spare and spare.server.session == "per_client":
            self._sessions[own] = self._sessions.pop(shared)
        return self._session(own, server)

    def _session(self, key: SessionKey, server: ServerSettings) -> Session:
        """The session to use now; one of outdated settings is let go."""
        session = self._sessions.get(key)
        if session is not None:
            if _serves(session, server):
                return session
            session.retire()
        session = self._sessions[key] = Session(server, self._around, self._record(server))
        self._tasks.start_soon(self._own, session)
        return session

    async def _own(self, session: Session) -> None:
        try:
            await session.run()
        finally:  # under which key, a client that took it over has decided
            for key in [key for key, held in self._sessions.items() if held is session]:
                del self._sessions[key]


async def _note_failure(
    record: Record, channel: Channel, told: UpstreamError, error: MCPError
) -> None:
    """Tell the record of a failed request; the loss of a whole session it is told by that."""
    link = channel.link
    if isinstance(told, UnavailableError) and not link.is_lost:
        record.failed(told)
    elif isinstance(told, OutcomeUnknownError):
        if not link.is_lost and (reason := await link.loss(error)):
            record.failed(UnavailableError(record.server, FailureKind.LOST, f"it failed: {reason}"))
    elif not link.is_lost:
        record.answered()


async def _slot(record: Record, server: ServerSettings) -> Slots:
    """Take one of the slots there are now; they take it back."""
    slots = record.slots
    try:
        await slots.acquire(patience=server.timeouts.call)
    except Full:
        record.counters.refused += 1
        raise _busy(server) from None
    return slots


def _serves(session: Session, server: ServerSettings) -> bool:
    """Whether a session takes new callers, and was opened for a server that is reached alike."""
    opened_for = session.server
    is_alike = (opened_for.transport, opened_for.limits.answer_mib) == (
        server.transport,
        server.limits.answer_mib,
    )
    return is_alike and not session.is_over


def _busy(server: ServerSettings) -> UnavailableError:
    limits = server.limits
    reason = f"as many calls are under way as it takes ({limits.calls}), and {limits.queue} wait"
    error = UnavailableError(server.name, FailureKind.BUSY, reason, hint="try again in a moment")
    error.retry_after = 1.0
    return error


async def _at_most_twice(ask: Callable[[], Awaitable[T]]) -> T:
    try:
        return await ask()
    except NotTakenUp:
        pass
    try:
        return await ask()
    except NotTakenUp as again:
        raise again.error from again


def find_invalid_header(definition: JSONObject) -> str | None:
    """Why a tool must not be used because of a header it wants an argument copied to."""
    return find_invalid_x_mcp_header(definition["inputSchema"])


async def header_maps(tools: tuple[JSONObject, ...]) -> dict[str, HeaderMap]:
    """Which arguments are copied to headers, for the tools that want it."""
    maps: dict[str, HeaderMap] = {}
    async for tool in in_batches(tools):
        if header_map := x_mcp_header_map(tool["inputSchema"]):
            maps[tool["name"]] = header_map
    return maps


def _no_fault(definition: JSONObject) -> None:  # noqa: ARG001 - takes what its twin takes
    return None
