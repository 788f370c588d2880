"""The entry point to the upstreams: list their tools, call them.

Sessions are opened on first use, shared, closed when idle and opened again. A call is sent once;
only a call that the server provably did not process is sent a second time.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from anyio.abc import TaskGroup

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamTimeoutError
from discovery_engine.events import EventBus
from discovery_engine.rpc.client import Client, Continuation
from discovery_engine.rpc.peer import OnProgress, RequestTimeoutError, RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, CallObserver, QuestionSettings, QuestionsOf
from discovery_engine.upstream.concurrency import SessionLimiter, StartLimiter
from discovery_engine.upstream.connection import Admit, EraMemory
from discovery_engine.upstream.history import Policy, ServerHistory
from discovery_engine.upstream.http.logins import Logins
from discovery_engine.upstream.input_rounds import complete_result
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.open_tasks import OpenTask, OpenTasks
from discovery_engine.upstream.request_errors import (
    RequestNotProcessed,
    at_most_twice,
    call_error,
    is_unsent,
    record_failure,
)
from discovery_engine.upstream.request_sender import RequestSender
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.resource_watch import ResourceWatch
from discovery_engine.upstream.server_histories import ServerHistories
from discovery_engine.upstream.server_lists import ServerLists
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_pool import SessionPool
from discovery_engine.upstream.state import SessionStats, StateInfo
from discovery_engine.upstream.stdio.reaper import open_reaper
from discovery_engine.upstream.task import TaskMethod
from discovery_engine.upstream.task_requests import TaskRequests
from discovery_engine.upstream.transport_opening import OnServerMessage, OnStderr, SessionContext

__all__ = ["OnServerMessage", "OnStderr", "Upstreams", "open_upstreams"]

_QUESTIONS = QuestionSettings()
_ALLOWED = nullcontext()


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
    data: Path | None = None,
    on_message: OnServerMessage = lambda _server, _method, _params: None,
    instance: str = "",
    pass_env: Callable[[], Sequence[str]] = tuple,
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
        data: Holds the private folders of programs in a sandbox; without, none is started in one.
        on_message: Called with notifications and pings of servers.
        instance: The name of this process among the gateways of a database; empty without one.
        pass_env: The variables of `environ` that programs inherit besides, by names or patterns.
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
            data,
            logins,
            on_message,
            pass_env,
        )
        yield Upstreams(context, tasks, policy, instance)
        tasks.cancel_scope.cancel()


class Upstreams:
    """Created by `open_upstreams`, which owns the task group of the sessions."""

    def __init__(
        self, context: SessionContext, group: TaskGroup, policy: Policy, instance: str = ""
    ) -> None:
        self._context = context
        self._group = group
        self._histories = ServerHistories(context.events, policy, context.logins)
        self._sessions = SessionPool(context, group, self._histories.of)
        self._lists = ServerLists(self._sessions, context.events)
        self.tasks = OpenTasks(at=instance)
        """The tasks that were handed to clients."""
        self._sender = RequestSender(
            self._sessions, self._lists, self.tasks, everywhere=policy.everywhere
        )
        self._task_requests = TaskRequests(
            self.tasks,
            self._sessions,
            self._histories,
            self._sender,
            context.questions_of,
            context.scheduler,
        )
        self._watches: dict[ServerName, ResourceWatch] = {}

    def sessions(self) -> Mapping[ServerName, SessionStats]:
        """The servers with an open session; the newest one if clients have their own."""
        live = self._sessions.by_server()
        return {name: session.stats for name, session in live.items() if not session.is_retired}

    @property
    def histories(self) -> Mapping[ServerName, ServerHistory]:
        """The history of every server used so far."""
        return self._histories.by_server

    def states(self) -> Mapping[ServerName, StateInfo]:
        """The state of every server used so far, with its counters and last stderr lines."""
        live = {name: session.stats for name, session in self._sessions.by_server().items()}
        return {name: history.report(live.get(name)) for name, history in self.histories.items()}

    def reset_backoff(self, server: ServerName) -> None:
        """Allow the next request to a server at once, although it is backing off."""
        if history := self.histories.get(server):
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
        await watch.add(uri, self._group)

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
        with self._histories.of(server).attempt():
            return await at_most_twice(lambda: self._lists.read(server))

    async def ping(self, server: ServerSettings) -> float:
        """The seconds until a server has answered `ping`; it is tried even if it is backing off.

        Raises:
            UpstreamError: As `list_tools`.
        """
        history = self._histories.of(server)
        history.reset_backoff()
        with history.attempt():
            session = self._sessions.for_listing
            return await at_most_twice(lambda: ping(session(server), server))

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
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """The raw result of a request, complete.

        Args:
            server: Connected first if needed.
            request: Sent unchecked.
            caller: The client that makes the request; with `session: per_client` each has its own
                session.
            continuation: Its answers to an `input_required` result of the same request.
            on_progress: Called with the progress notifications of the request.
            observer: Gets what happens meanwhile.

        Raises:
            UnavailableError: If connecting fails, the server is backing off, or its call queue is
                full; `retry_after` says when to try again.
            OutcomeUnknownError: If the connection breaks during the call.
            UpstreamTimeoutError: If it does not answer in time; the request is cancelled.
            UpstreamProtocolError: If it answers with an error, or the answer is invalid.
            InputRequiredError: If it fails after the server asked what its client did not answer.
        """
        context = self._context
        call = Call(server.name, caller, context.questions_of, context.scheduler, observer)
        history = self._histories.of(server)
        history.stats.calls += 1

        def send(one: UpstreamRequest) -> Awaitable[JSONObject]:
            return at_most_twice(lambda: self._sender.send(server, one, call, on_progress))

        with (
            history.attempt() if history.is_in_doubt else _ALLOWED,
            call.holding(await history.acquire_slot(server, observer)),
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
        """Return the answer of a task's server to a request about it.

        Raises:
            TaskNotFoundError: If the server, or its session, does not have it any more.
            UpstreamError: As `send`.
        """
        return await self._task_requests.ask(server, task, method, caller, responses)


# One request to a server that costs it nothing, to see whether it answers, and how fast.

_PING = "ping"


async def ping(session: Session, server: ServerSettings) -> float:
    """The seconds until a server has answered; it is connected first if needed, which is not in it.

    Raises:
        RequestNotProcessed: If the server provably did not process it.
        UpstreamError: If it cannot be reached, or does not answer in time.
    """
    async with session.lease() as rpc:
        try:
            if not rpc.is_proven:  # it may be starting still, which is not what is measured
                await rpc.ping(seconds=server.timeouts.call)
            began = time.monotonic()
            await rpc.ping(seconds=server.timeouts.call)
        except RequestTimeoutError as timeout:
            session.history.record_timeout(_PING, timeout.seconds)
            raise UpstreamTimeoutError(server.name, _PING, timeout.seconds) from None
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:  # which is an answer, too
                failure = await call_error(rpc.transport, _PING, error)
                if rpc.transport.wants_new_session(error) or is_unsent(error):
                    session.retire()
                    raise RequestNotProcessed(failure) from error
                await record_failure(session.history, rpc, failure, error)
                raise failure from error
        seconds = time.monotonic() - began
        session.history.record_success()
        return seconds
