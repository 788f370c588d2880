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
from discovery_engine.upstream.call_timeout import CallTimeout
from discovery_engine.upstream.concurrency import (
    CallLimiter,
    QueueFull,
    SessionLimiter,
    StartLimiter,
)
from discovery_engine.upstream.connection import EraMemory
from discovery_engine.upstream.history import Policy, ServerHistory
from discovery_engine.upstream.listing import (
    Listing,
    Pages,
    exceeds_depth,
    in_batches,
    read_pages,
    split_usable,
)
from discovery_engine.upstream.request_errors import RequestNotProcessed, call_error, listing_error
from discovery_engine.upstream.rpc_client import OnProgress, RpcClient
from discovery_engine.upstream.session import Admit, OnStderr, Session, SessionContext
from discovery_engine.upstream.state import Condition, SessionState
from discovery_engine.upstream.stdio.reaper import open_reaper
from discovery_engine.upstream.wire.scheduling import FairScheduler

__all__ = ["OnProgress", "OnStderr", "Upstreams", "open_upstreams"]

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
    on_stderr: OnStderr = lambda _server, _lines: None,
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
        on_stderr: Told the lines that a program writes to its error output.
        policy: How many calls and clients' own sessions there may be, and the clock of retries.
    """
    async with open_reaper() as reaper, open_task_group() as tasks:
        context = SessionContext(
            events,
            eras,
            environ,
            StartLimiter(max_connecting),
            SessionLimiter(policy.own_sessions),
            reaper,
            FairScheduler(),
            idle_timeout,
            admit,
            on_stderr,
        )
        yield Upstreams(context, tasks, policy)
        tasks.cancel_scope.cancel()


class Upstreams:
    """Made by `open_upstreams`, which owns the tasks that the sessions live in."""

    def __init__(self, context: SessionContext, tasks: TaskGroup, policy: Policy) -> None:
        self._context = context
        self._tasks = tasks
        self._policy = policy
        self._records: dict[ServerName, ServerHistory] = {}
        self._everywhere = anyio.Semaphore(policy.everywhere, fast_acquire=True)
        self._sessions: dict[SessionKey, Session] = {}
        self._headers: dict[str, Mapping[str, HeaderMap]] = {}

    def states(self) -> Mapping[ServerName, SessionState]:
        """The servers with a live session; where each client has its own, the newest one."""
        live = {name: s for (name, _), s in self._sessions.items() if not s.is_retired}
        return {name: session.state for name, session in live.items()}

    @property
    def histories(self) -> Mapping[ServerName, ServerHistory]:
        """What is known of every server that was ever asked for anything."""
        return self._records

    def conditions(self) -> Mapping[ServerName, Condition]:
        """How every server fares that was ever asked for anything; reads all they wrote last."""
        live = {name: session.state for (name, _), session in self._sessions.items()}
        return {name: history.condition(live.get(name)) for name, history in self._records.items()}

    def reset_backoff(self, server: ServerName) -> None:
        """Let the next request to a server through, although it failed only just before."""
        if history := self._records.get(server):
            history.reset_backoff()

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
        history = self._record(server)
        history.counters.calls += 1
        with history.attempt() if history.is_in_doubt else nullcontext():
            slots = await _slot(history, server)
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
        async with session.lease() as rpc:
            self._context.events.publish(ServerDiscovering(server.name))
            session.rearm_change_event()
            pages = await self._pages(server, session, rpc)
            session.history.record_success()
            info = await session.refreshed_info(rpc)
        find_fault = find_invalid_header if info.is_modern else _no_fault
        tools, dropped = await split_usable(pages.definitions, find_fault=find_fault)
        self._headers[session.connection] = await header_maps(tools) if info.is_modern else {}
        return Listing(tools, dropped, info.instructions, pages.ttl, session.connection, pages.cut)

    async def _pages(self, server: ServerSettings, session: Session, rpc: RpcClient) -> Pages:
        seconds = server.timeouts.list
        try:
            return await read_pages(rpc.list_page, seconds=seconds)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and rpc.is_proven:
                return Pages()  # a server without tools need not know the request
            told = await listing_error(rpc.transport, error)
            if rpc.transport.wants_new_session(error):
                session.retire()
                raise RequestNotProcessed(told) from error
            await _note_failure(session.history, rpc, told, error)
        except TimeoutError:
            told = UpstreamTimeoutError(server.name, "tools/list", seconds)
            session.history.record_timeout("tools/list", seconds)
        except ValueError as error:
            told = UpstreamProtocolError(server.name, str(error), PARSE_ERROR)
        raise RequestNotProcessed(told) if await session.reject_stored_era(rpc, told) else told

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
        async with session.lease() as rpc:
            headers = self._parameter_headers(session, tool, arguments)
            timeout = CallTimeout(server.timeouts.call, on_progress)
            try:
                async with self._everywhere:
                    with timeout:
                        result = await rpc.call(
                            tool, arguments, headers=headers, on_progress=timeout.on_progress
                        )
            except TimeoutError:
                told = UpstreamTimeoutError(server.name, repr(tool), timeout.seconds)
                session.history.record_timeout(repr(tool), timeout.seconds)
                await session.reject_stored_era(rpc, told)
                raise told from None
            except MCPError as error:
                raise await self._why(session, rpc, tool, error) from error
            except ValueError as error:
                raise UpstreamProtocolError(server.name, str(error), INVALID_PARAMS) from error
        if await exceeds_depth(result, limit=_MAX_RESULT_DEPTH):
            reason = f"its answer nests more than {_MAX_RESULT_DEPTH} levels deep"
            raise UpstreamProtocolError(server.name, reason, PARSE_ERROR)
        session.history.record_success()
        return result

    async def _why(
        self, session: Session, rpc: RpcClient, tool: str, error: MCPError
    ) -> UpstreamError | RequestNotProcessed:
        """What to raise for a failed call."""
        told = await call_error(rpc.transport, tool, error)
        if rpc.transport.wants_new_session(error):
            session.retire()
            return RequestNotProcessed(told)
        if error.code == HEADER_MISMATCH and session.connection not in self._headers:
            await self._list(session.server)  # now it is known which arguments go into headers
            return RequestNotProcessed(told)
        if await session.reject_stored_era(rpc, told) and error.code in _NEVER_EXECUTED:
            return RequestNotProcessed(told)
        await _note_failure(session.history, rpc, told, error)
        return told

    def _record(self, server: ServerSettings) -> ServerHistory:
        if (history := self._records.get(server.name)) is None:
            history = ServerHistory(server, self._context.events, self._policy)
            self._records[server.name] = history
        history.apply_settings(server)
        return history

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
        session = self._sessions[key] = Session(server, self._context, self._record(server))
        self._tasks.start_soon(self._own, session)
        return session

    async def _own(self, session: Session) -> None:
        try:
            await session.run()
        finally:  # under which key, a client that took it over has decided
            for key in [key for key, held in self._sessions.items() if held is session]:
                del self._sessions[key]


async def _note_failure(
    history: ServerHistory, rpc: RpcClient, told: UpstreamError, error: MCPError
) -> None:
    """Tell the history of a failed request; the loss of a whole session it is told by that."""
    transport = rpc.transport
    if isinstance(told, UnavailableError) and not transport.is_lost:
        history.record_failure(told)
    elif isinstance(told, OutcomeUnknownError):
        if not transport.is_lost and (reason := await transport.describe_loss(error)):
            history.record_failure(
                UnavailableError(history.server, FailureKind.LOST, f"it failed: {reason}")
            )
    elif not transport.is_lost:
        history.record_success()


async def _slot(history: ServerHistory, server: ServerSettings) -> CallLimiter:
    """Take one of the slots there are now; they take it back."""
    slots = history.calls
    try:
        await slots.acquire(max_wait=server.timeouts.call)
    except QueueFull:
        history.counters.refused += 1
        raise _busy(server) from None
    return slots


def _serves(session: Session, server: ServerSettings) -> bool:
    """Whether a session takes new callers, and was opened for a server that is reached alike."""
    opened_for = session.server
    is_alike = (opened_for.transport, opened_for.limits.answer_mib) == (
        server.transport,
        server.limits.answer_mib,
    )
    return is_alike and not session.is_retired


def _busy(server: ServerSettings) -> UnavailableError:
    limits = server.limits
    reason = f"as many calls are under way as it takes ({limits.calls}), and {limits.queue} wait"
    error = UnavailableError(server.name, FailureKind.BUSY, reason, hint="try again in a moment")
    error.retry_after = 1.0
    return error


async def _at_most_twice(ask: Callable[[], Awaitable[T]]) -> T:
    try:
        return await ask()
    except RequestNotProcessed:
        pass
    try:
        return await ask()
    except RequestNotProcessed as again:
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
