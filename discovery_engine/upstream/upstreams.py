"""The entry point to the upstreams: list their tools, call them.

Sessions are opened on first use, shared, closed when idle and opened again. A call is sent once;
only a call that the server provably did not process is sent a second time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TypeVar

from anyio.abc import TaskGroup

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import Limits, RemoteTransport, ServerSettings
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    TaskNotFoundError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import EventBus, ServerDiscovering
from discovery_engine.rpc.client import Client, Continuation
from discovery_engine.rpc.peer import OnProgress, RequestTimeoutError, RpcError
from discovery_engine.rpc.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, QuestionSettings, QuestionsOf
from discovery_engine.upstream.concurrency import (
    CallLimiter,
    QueueFull,
    SessionLimiter,
    StartLimiter,
)
from discovery_engine.upstream.connection import EraMemory
from discovery_engine.upstream.handshake import ServerInfo
from discovery_engine.upstream.history import Policy, ServerHistory
from discovery_engine.upstream.http.logins import Logins
from discovery_engine.upstream.input_rounds import annotated, complete_result, read_questions
from discovery_engine.upstream.listing import (
    Listing,
    Pages,
    exceeds_depth,
    header_maps,
    is_flat,
    read_pages,
    split_usable,
)
from discovery_engine.upstream.offering_listing import declared_kinds, list_offerings
from discovery_engine.upstream.open_tasks import (
    LONGEST_LIFE,
    OpenTask,
    OpenTasks,
)
from discovery_engine.upstream.request_errors import (
    RequestNotProcessed,
    at_most_twice,
    call_error,
    is_unsent,
    listing_error,
)
from discovery_engine.upstream.requests import CALL_TOOL, UpstreamRequest
from discovery_engine.upstream.resource_watch import ResourceWatch
from discovery_engine.upstream.rpc_client import LONGEST_CALL, RpcClient
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_pool import SessionPool
from discovery_engine.upstream.state import SessionStats, StateInfo
from discovery_engine.upstream.stdio.reaper import open_reaper
from discovery_engine.upstream.task import (
    TaskMethod,
    TaskState,
    invalid_task,
    is_task,
    task_request,
    unexpected_task,
)
from discovery_engine.upstream.task_wait import RisingProgress, TaskWait, is_unknown
from discovery_engine.upstream.transport import HeaderMap
from discovery_engine.upstream.transport_opening import Admit, OnStderr, SessionContext

__all__ = ["OnStderr", "Upstreams", "open_upstreams"]

T = TypeVar("T")

_OFFERINGS = 10.0  # seconds that the tools of a server wait for its resources and prompts
_MAX_RESULT_DEPTH = 100  # deeper results may fail in JSON encoders
_QUESTIONS = QuestionSettings()
_ALLOWED = nullcontext()
_NEVER_EXECUTED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND)


@asynccontextmanager
async def open_upstreams(  # noqa: PLR0913 - each by its name
    *,
    max_connecting: int,
    idle_timeout: float,
    events: EventBus,
    eras: EraMemory,
    environ: Mapping[str, str],
    secrets: SecretResolver,
    admit: Admit,
    on_stderr: OnStderr = lambda _server, _lines: None,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    logins: Logins | None = None,
    questions_of: QuestionsOf = lambda _: _QUESTIONS,
) -> AsyncIterator[Upstreams]:
    """Yield the upstreams; on exit every session is closed and every program ended.

    Args:
        max_connecting: How many servers start at the same time.
        idle_timeout: Seconds without a call after which a session is closed.
        events: Gets events of connects, listings and changes of tools.
        eras: Stores the protocol era of each server.
        environ: Programs inherit a safe subset of it.
        secrets: Resolves the references of entries.
        admit: Called before each start or connect; raises if it is not approved.
        on_stderr: Called with the stderr lines of programs.
        policy: The limits of calls and client sessions, and the clock of retries.
        logins: Access tokens of remote servers; none are sent if None.
        questions_of: How long questions of a server wait, and which its owner answers; read for
            each question.
    """
    async with open_reaper() as reaper, open_task_group() as tasks:
        context = SessionContext(
            events,
            eras,
            environ,
            secrets,
            StartLimiter(max_connecting),
            SessionLimiter(policy.own_sessions),
            reaper,
            FairScheduler(),
            idle_timeout,
            admit,
            on_stderr,
            questions_of,
            logins,
        )
        yield Upstreams(context, tasks, policy)
        tasks.cancel_scope.cancel()


class Upstreams:
    """Created by `open_upstreams`, which owns the task group of the sessions."""

    def __init__(self, context: SessionContext, tasks: TaskGroup, policy: Policy) -> None:
        self._context = context
        self._tasks = tasks
        self._policy = policy
        self.tasks = OpenTasks()
        """Those that were handed to clients."""
        self._histories: dict[ServerName, ServerHistory] = {}
        self._everywhere = CallLimiter(Limits(calls=policy.everywhere, queue=sys.maxsize))
        self._sessions = SessionPool(context, tasks, self._history)
        self._login_stamp = context.logins.stamp() if context.logins else None
        self._watches: dict[ServerName, ResourceWatch] = {}
        self._header_maps: dict[str, Mapping[str, HeaderMap]] = {}

    def sessions(self) -> Mapping[ServerName, SessionStats]:
        """The servers with an open session; the newest one if clients have their own."""
        live = self._sessions.by_server()
        return {name: one.stats for name, one in live.items() if not one.is_retired}

    @property
    def histories(self) -> Mapping[ServerName, ServerHistory]:
        """The history of every server used so far."""
        return self._histories

    def states(self) -> Mapping[ServerName, StateInfo]:
        """The state of every server used so far, with its counters and last stderr lines."""
        live = {name: session.stats for name, session in self._sessions.by_server().items()}
        return {name: history.report(live.get(name)) for name, history in self._histories.items()}

    def reset_backoff(self, server: ServerName) -> None:
        """Allow the next request to a server at once, although it is backing off."""
        if history := self._histories.get(server):
            history.reset_backoff()

    async def close(self, server: ServerName) -> None:
        """Close the sessions of a server after their current calls; no-op if there are none."""
        if watch := self._watches.pop(server, None):
            watch.end()
        self._sessions.close(server)

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """Have `ResourceUpdated` published for a resource, until `unwatch`.

        Raises:
            UpstreamError: If the server cannot be reached, or does not notify of updates.
        """
        watch = self._watches.get(server.name)
        if watch is None or watch.server.transport != server.transport:
            watch = ResourceWatch(server, lambda: self._sessions.for_listing(server))
            self._watches[server.name] = watch
        await watch.add(uri, self._tasks)

    def unwatch(self, server: ServerName, uri: str) -> None:
        """No-op if it is not watched."""
        if watch := self._watches.get(server):
            watch.remove(uri)

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare the capabilities of a client to servers, in sessions that are opened from now on.

        A session that was opened before is opened again at the first call that needs them.
        """
        self._sessions.expect(capabilities)

    def roots_changed(self, client: Client) -> None:
        """Notify the servers of a client's calls that its roots have changed.

        They ask for them outside of every call, and the client is asked then.
        """
        self._sessions.roots_changed(client)

    def settings_changed(self) -> None:
        """Notify servers of roots that their owner has changed since they were given."""
        self._sessions.settings_changed()

    def close_client(self, client: str) -> None:
        """Close the sessions of a client after its current calls; no-op if there are none."""
        self._sessions.close_client(client)

    async def list_tools(self, server: ServerSettings) -> Listing:
        """All tools of a server, connected first if need be.

        Raises:
            UnavailableError: If connecting fails, or the connection breaks.
            UpstreamTimeoutError: If it does not list in time.
            UpstreamProtocolError: If it answers with an error or an invalid list.
        """
        with self._history(server).attempt():
            return await at_most_twice(lambda: self._list(server))

    async def call(
        self,
        server: ServerSettings,
        tool: str,
        arguments: JSONObject,
        *,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """The raw result of a tool, complete; as `send`."""
        request = UpstreamRequest.call(tool, arguments)
        return await self.send(
            server, request, caller=caller, continuation=continuation, on_progress=on_progress
        )

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        *,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """The raw result of a request, complete.

        Args:
            server: Connected first if needed.
            request: Sent unchecked.
            caller: The client that makes the request; with `session: per_client` each has its own
                session.
            continuation: Its answers to an `input_required` result of the same request.
            on_progress: Called with the progress notifications of the request.

        Raises:
            UnavailableError: If connecting fails, the server is backing off, or its call queue is
                full; `retry_after` says when to try again.
            OutcomeUnknownError: If the connection breaks during the call.
            UpstreamTimeoutError: If it does not answer in time; the request is cancelled.
            UpstreamProtocolError: If it answers with an error, or the answer is invalid.
            InputRequiredError: If it fails after the server asked what its client did not answer.
        """
        call = Call(server.name, caller, self._context.questions_of)
        history = self._history(server)
        history.stats.calls += 1

        def send(one: UpstreamRequest) -> Awaitable[JSONObject]:
            return at_most_twice(lambda: self._send(server, one, call, on_progress))

        with (
            history.attempt() if history.is_in_doubt else _ALLOWED,
            call.holding(await _acquire_slot(history, server)),
        ):
            return await complete_result(send, request, call, continuation)

    async def ask_task(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        caller: Client | None,
        responses: JSONObject | None = None,
    ) -> JSONObject:
        """What the server of a task answers to a request about it.

        Raises:
            TaskNotFoundError: If the server, or its session, does not have it any more.
            UpstreamError: As `send`.
        """
        call = Call(server.name, caller, self._context.questions_of)
        request = task_request(method, task.state.id, task.subject, responses)
        with call.holding(await _acquire_slot(self._history(server), server)):
            session = self._session_of(task, server, call)
            with session.calls.including(call):
                async with session.lease() as rpc:
                    holder = _TaskHolder(self, session, rpc, server, call)
                    try:
                        answer = await holder.ask(request, server.timeouts.call)
                    except UpstreamProtocolError as error:
                        if is_unknown(error):
                            self.tasks.remove(task)
                            raise TaskNotFoundError from error
                        raise
        session.history.record_success()
        if method == "tasks/cancel":
            session.release(task.handle)
        if method != "tasks/get":
            return {}
        try:
            await _require_flat(server, answer)
            return self._observed(task, call, answer)
        except UpstreamProtocolError:
            self.tasks.remove(task)
            raise

    def _observed(self, task: OpenTask, call: Call, answer: JSONObject) -> JSONObject:
        """The state of a task, as its client is given it."""
        state = TaskState.from_json(task.server, answer)
        if state.id != task.state.id:
            raise invalid_task(task.server, "what it reports is about another task")
        shown = state.shown(task.server, task.handle, LONGEST_LIFE)
        task.observe(state)
        if state.status == "input_required":
            questions = read_questions(call, answer)
            asked = annotated(call, answer, questions)["inputRequests"]
            shown["inputRequests"] = {key: asked[key] for key in questions}
        return shown

    def _session_of(self, task: OpenTask, server: ServerSettings, call: Call) -> Session:
        """The session that has a task.

        A remote server has it in every session; a program that was started again has others.
        """
        if not task.session.is_retired:
            return task.session
        if isinstance(server.transport, RemoteTransport):
            session = self._sessions.for_call(server, call)
            if session.connection == task.session.connection:
                task.session = session
                return session
        self.tasks.remove(task)
        raise TaskNotFoundError

    async def _list(self, server: ServerSettings) -> Listing:
        session = self._sessions.for_listing(server)
        async with session.lease() as rpc:
            self._context.events.publish(ServerDiscovering(server.name))
            session.rearm_change_event()
            pages = await self._pages(server, session, rpc)
            session.history.record_success()
            info = await session.refreshed_info(rpc)
            transport = rpc.transport
            find_fault = transport.header_fault if info.is_modern else _no_fault
            tools, dropped = await split_usable(pages.definitions, find_fault=find_fault)
            offerings = await list_offerings(
                rpc.list_page,
                info.capabilities,
                tools={tool["name"] for tool in tools},
                seconds=min(server.timeouts.list, _OFFERINGS),
            )
        maps = await header_maps(tools, transport.header_map) if info.is_modern else {}
        self._header_maps[session.connection] = maps
        return Listing(
            tools,
            dropped,
            info.instructions,
            pages.ttl,
            session.connection,
            pages.cut,
            offerings,
        )

    async def _pages(self, server: ServerSettings, session: Session, rpc: RpcClient) -> Pages:
        seconds = server.timeouts.list
        try:
            return await read_pages(partial(rpc.list_page, "tools/list"), seconds=seconds)
        except RpcError as error:
            if rpc.is_proven and (error.code == METHOD_NOT_FOUND or _has_no_tools(rpc.info)):
                return Pages()  # a server without tools need not support the request
            failure = await listing_error(rpc.transport, error)
            if rpc.transport.wants_new_session(error) or is_unsent(error):
                session.retire()
                raise RequestNotProcessed(failure) from error
            await _note_failure(session.history, rpc, failure, error)
        except TimeoutError:
            failure = UpstreamTimeoutError(server.name, "tools/list", seconds)
            session.history.record_timeout("tools/list", seconds)
        except ValueError as error:
            failure = UpstreamProtocolError(server.name, str(error), PARSE_ERROR)
        raise (
            RequestNotProcessed(failure)
            if await session.reject_stored_era(rpc, failure)
            else failure
        )

    async def _send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        session = self._sessions.for_call(server, call)
        with session.calls.including(call):
            result = await self._send_in(session, server, request, call, on_progress)
        await _require_flat(server, result)
        session.history.record_success()
        return result

    async def _send_in(
        self,
        session: Session,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        async with session.lease() as rpc:
            if (level := call.client.log_level) is not None:
                await session.request_messages(rpc, level)
            if rpc.offers_tasks and request.method == CALL_TOOL:
                return await self._task_result(session, rpc, server, request, call, on_progress)
            result = await self._exchange(session, rpc, server, request, call, on_progress)
        if is_task(result):
            raise unexpected_task(server.name, request.method)
        return result

    async def _task_result(
        self,
        session: Session,
        rpc: RpcClient,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """The result of a call that may become a task."""
        progress = RisingProgress(on_progress) if on_progress else None
        report = progress.report if progress else None
        result = await self._exchange(session, rpc, server, request, call, report)
        if not is_task(result):
            return result
        state = TaskState.from_json(server.name, result)
        if call.client.takes_tasks and self.tasks.has_room(call.client.id):
            task = self.tasks.add(session, server.name, request.subject, call.client.id, state)
            return {"resultType": "task", **state.seed(task.handle, LONGEST_LIFE)}
        holder = _TaskHolder(self, session, rpc, server, call)
        longest = max(server.timeouts.call, LONGEST_CALL)
        wait = TaskWait(state, call, request.subject, holder, progress, seconds=longest)
        return await wait.result()

    async def _exchange(
        self,
        session: Session,
        rpc: RpcClient,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None = None,
        *,
        at_most: float = math.inf,
    ) -> JSONObject:
        """The answer to one request of a call."""
        try:
            if not self._everywhere.acquire_now():
                await self._everywhere.acquire()
            with call.holding(self._everywhere):
                return await rpc.send(
                    request,
                    call=call,
                    seconds=min(server.timeouts.call, at_most),
                    header_map=self._header_map(session, request),
                    on_progress=on_progress,
                )
        except RequestTimeoutError as timeout:
            failure = UpstreamTimeoutError(server.name, repr(request.subject), timeout.seconds)
            session.history.record_timeout(repr(request.subject), timeout.seconds)
            await session.reject_stored_era(rpc, failure)
            raise failure from None
        except RpcError as error:
            raise await self._call_error(session, rpc, request.subject, error) from error
        except ValueError as error:
            raise UpstreamProtocolError(server.name, str(error), INVALID_PARAMS) from error

    def _header_map(self, session: Session, request: UpstreamRequest) -> HeaderMap | None:
        if request.method != CALL_TOOL or request.name is None:
            return None
        return self._header_maps.get(session.connection, {}).get(request.name)

    async def _call_error(
        self, session: Session, rpc: RpcClient, subject: str, error: RpcError
    ) -> UpstreamError | RequestNotProcessed:
        """The error to raise for a failed call."""
        failure = await call_error(rpc.transport, subject, error)
        if rpc.transport.wants_new_session(error) or is_unsent(error):
            session.retire()
            return RequestNotProcessed(failure)
        if error.code == HEADER_MISMATCH and session.connection not in self._header_maps:
            await self._list(session.server)  # learns which arguments are sent as headers
            return RequestNotProcessed(failure)
        if await session.reject_stored_era(rpc, failure) and error.code in _NEVER_EXECUTED:
            return RequestNotProcessed(failure)
        await _note_failure(session.history, rpc, failure, error)
        return failure

    def _history(self, server: ServerSettings) -> ServerHistory:
        if (history := self._histories.get(server.name)) is None:
            history = ServerHistory(server, self._context.events, self._policy)
            self._histories[server.name] = history
        history.apply_settings(server)
        if history.awaits_login:
            self._try_new_logins()
        return history

    def _try_new_logins(self) -> None:
        """After a login, maybe in another process, servers that wait for one are tried at once."""
        logins = self._context.logins
        if logins and (stamp := logins.stamp()) != self._login_stamp:
            self._login_stamp = stamp
            for history in self._histories.values():
                if history.awaits_login:
                    history.reset_backoff()


async def _require_flat(server: ServerSettings, result: JSONObject) -> None:
    if not is_flat(result) and await exceeds_depth(result, limit=_MAX_RESULT_DEPTH):
        reason = f"its answer nests more than {_MAX_RESULT_DEPTH} levels deep"
        raise UpstreamProtocolError(server.name, reason, PARSE_ERROR)


class _TaskHolder:
    """Implements `TaskServer`."""

    def __init__(
        self,
        upstreams: Upstreams,
        session: Session,
        rpc: RpcClient,
        server: ServerSettings,
        call: Call,
    ) -> None:
        self._exchange = upstreams._exchange  # noqa: SLF001 - of this module
        self._session = session
        self._rpc = rpc
        self._server = server
        self._call = call

    @property
    def is_lost(self) -> bool:
        return self._rpc.transport.is_lost

    async def ask(self, request: UpstreamRequest, seconds: float) -> JSONObject:
        """As `TaskServer`."""
        try:
            return await self._exchange(
                self._session, self._rpc, self._server, request, self._call, at_most=seconds
            )
        except RequestNotProcessed as again:  # the call itself must not be sent again
            raise again.error from again


async def _note_failure(
    history: ServerHistory, rpc: RpcClient, failure: UpstreamError, error: RpcError
) -> None:
    """Record a failed request; a lost session is recorded by the session itself."""
    transport = rpc.transport
    if isinstance(failure, UnavailableError) and not transport.is_lost:
        history.record_failure(failure)
    elif isinstance(failure, OutcomeUnknownError):
        if not transport.is_lost and (reason := await transport.describe_loss(error)):
            history.record_failure(
                UnavailableError(history.server, FailureKind.LOST, f"it failed: {reason}")
            )
    elif not transport.is_lost:
        history.record_success()


async def _acquire_slot(history: ServerHistory, server: ServerSettings) -> CallLimiter:
    """Acquire a call slot; release it at the returned limiter, which may be replaced meanwhile."""
    calls = history.calls
    if calls.acquire_now():
        return calls
    try:
        await calls.acquire(max_wait=server.timeouts.call)
    except QueueFull:
        history.stats.refused += 1
        raise _busy(server) from None
    return calls


def _busy(server: ServerSettings) -> UnavailableError:
    limits = server.limits
    reason = f"as many calls are under way as it takes ({limits.calls}), and {limits.queue} wait"
    error = UnavailableError(server.name, FailureKind.BUSY, reason, hint="try again in a moment")
    error.retry_after = 1.0
    return error


def _has_no_tools(info: ServerInfo) -> bool:
    """Whether a server declares that it has resources or prompts, and no tools."""
    return "tools" not in info.capabilities and bool(declared_kinds(info.capabilities))


def _no_fault(definition: JSONObject) -> None:  # noqa: ARG001 - same signature as `header_fault`
    return None
