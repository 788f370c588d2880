"""The open sessions: one for each server, or for each client of a server.

They are opened on first use, shared, closed when idle, and opened again when they no longer fit.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from anyio.abc import TaskGroup
from msgspec.structs import asdict

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import Limits, RemoteTransport, ServerSettings
from discovery_engine.errors import TaskNotFoundError, UpstreamProtocolError
from discovery_engine.rpc.client import Client, covers, declarable, merged
from discovery_engine.rpc.messages import OnProgress
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, CallObserver, RequestNotProcessed, UpstreamRequest
from discovery_engine.upstream.concurrency import CallLimiter, StartLimiter
from discovery_engine.upstream.handshake import Capabilities
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.open_tasks import LONGEST_LIFE, OpenTask, OpenTasks
from discovery_engine.upstream.resource_watch import ResourceWatch
from discovery_engine.upstream.rpc_client import require_flat
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_task import SessionLimiter, SessionTask
from discovery_engine.upstream.state import StateInfo
from discovery_engine.upstream.stdio.reaper import open_reaper
from discovery_engine.upstream.task import (
    TaskMethod,
    TaskState,
    invalid_task,
    is_unknown,
    task_request,
)
from discovery_engine.upstream.transport_opening import SessionContext, SessionOptions

SessionKey: TypeAlias = tuple[ServerName, str | None]
"""A server and the client whose session it is; None for a shared session."""

_OWNERS_ROOTS: Capabilities = {"roots": {"listChanged": True}}
"""Declared where the owner's roots are given: a reload may change them."""
_SOLE_CLIENT = ""  # where the gateway has only one client
_LISTING = "\0listing"  # the key of a session that only lists


@asynccontextmanager
async def open_sessions(options: SessionOptions) -> AsyncIterator[SessionPool]:
    """Yield the sessions; on exit every session is closed and every program ended."""
    async with open_reaper() as reaper, open_task_group() as tasks:
        context = SessionContext(
            **asdict(options),
            start_limiter=StartLimiter(options.max_connecting),
            everywhere=CallLimiter(Limits(calls=options.policy.everywhere, queue=sys.maxsize)),
            reaper=reaper,
            scheduler=FairScheduler(),
        )
        yield SessionPool(context, tasks)
        tasks.cancel_scope.cancel()


class SessionPool:
    """Created by `open_sessions`, which owns the task group that they run in."""

    def __init__(self, context: SessionContext, group: TaskGroup) -> None:
        self._context = context
        self._group = group
        self._limiter = SessionLimiter(context.policy.own_sessions)
        self._login_stamp = context.logins.stamp() if context.logins else None
        self._sessions: dict[SessionKey, Session] = {}
        self._expected: Capabilities = {}
        self._watches: dict[ServerName, ResourceWatch] = {}
        self.histories: dict[ServerName, ServerHistory] = {}
        """The history of every server used so far."""
        self.tasks = OpenTasks(at=context.instance)
        """The tasks that were handed to clients."""

    def history_of(self, server: ServerSettings) -> ServerHistory:
        """The history of a server, under its present settings."""
        if (history := self.histories.get(server.name)) is None:
            history = ServerHistory(server, self._context.events, self._context.policy)
            self.histories[server.name] = history
        history.apply_settings(server)
        if history.awaits_login:
            self._try_new_logins()
        return history

    def _try_new_logins(self) -> None:
        """After a login, maybe in another process, servers that wait for one are tried at once."""
        logins = self._context.logins
        if logins and (stamp := logins.stamp()) != self._login_stamp:
            self._login_stamp = stamp
            for history in self.histories.values():
                if history.awaits_login:
                    history.reset_backoff()

    def states(self) -> Mapping[ServerName, StateInfo]:
        """The state of every server used so far, with its counters and last stderr lines."""
        live = {name: session.stats for (name, _), session in self._sessions.items()}
        return {name: history.report(live.get(name)) for name, history in self.histories.items()}

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """Have `ResourceUpdated` published for a resource, until `unwatch`.

        Raises:
            UpstreamError: If the server cannot be reached, or does not notify of updates.
        """
        watch = self._watches.get(server.name)
        if watch is None or watch.server.transport != server.transport:
            watch = ResourceWatch(server, lambda: self.for_listing(server, {}))
            self._watches[server.name] = watch
        await watch.add(uri, self._group)

    def unwatch(self, server: ServerName, uri: str) -> None:
        """No-op if it is not watched."""
        if watch := self._watches.get(server):
            watch.remove(uri)

    def call(
        self, server: ServerSettings, caller: Client | None, observer: CallObserver | None = None
    ) -> Call:
        """A call that begins; `observer` gets what happens meanwhile."""
        context = self._context
        return Call(server.name, caller, context.questions_of, context.scheduler, observer)

    def hand_out(
        self, session: Session, call: Call, request: UpstreamRequest, state: TaskState
    ) -> JSONObject | None:
        """Give a task to the client of a call, if it takes tasks; see `HandOut`."""
        owner = call.client.id
        if not (call.client.takes_tasks and self.tasks.has_room(owner)):
            return None
        task = self.tasks.add(session, call.server, request.subject, owner, state)
        return {"resultType": "task", **state.seed(task.handle, LONGEST_LIFE)}

    async def ask_task(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        call: Call,
        responses: JSONObject | None,
    ) -> JSONObject:
        """Return the answer of a task's server to a request about it.

        Raises:
            TaskNotFoundError: If the server, or its session, does not have it any more.
            UpstreamError: As `Session.ask`.
        """
        request = task_request(method, task.state.id, task.subject, responses)
        session = self._session_of(task, server, call)
        try:
            answer = await session.ask(server, request, call)
        except UpstreamProtocolError as error:
            if not is_unknown(error):
                raise
            self.tasks.remove(task)
            raise TaskNotFoundError from error
        session.history.record_success()
        if method == "tasks/cancel":
            session.release(task.handle)
        if method != "tasks/get":
            return {}
        try:
            await require_flat(server, answer)
            return await _observed(task, call, answer)
        except UpstreamProtocolError:
            self.tasks.remove(task)
            raise

    def _session_of(self, task: OpenTask, server: ServerSettings, call: Call) -> Session:
        """The session that has a task.

        A remote server has it in every session; a program that was started again has others.
        """
        if not task.session.is_retired:
            return task.session
        if isinstance(server.transport, RemoteTransport):
            session = self.for_call(server, call)
            if session.connection == task.session.connection:
                task.session = session
                return session
        self.tasks.remove(task)
        raise TaskNotFoundError

    def close(self, server: ServerName) -> None:
        """Close the sessions of a server after their current calls; no-op if there are none."""
        if watch := self._watches.pop(server, None):
            watch.end()
        for (name, _), session in self._sessions.items():
            if name == server:
                session.retire()

    def close_client(self, client: str) -> None:
        """Close the sessions of a client after its current calls; no-op if there are none."""
        for (_, owner), session in self._sessions.items():
            if owner == client:
                session.retire()

    def roots_changed(self, client: Client) -> None:
        """Notify the servers of a client's calls that its roots have changed.

        They ask for them outside of every call, and the client is asked then.
        """
        for session in self._sessions.values():
            if session.calls.expect_roots_of(client):
                session.roots.note()

    def settings_changed(self) -> None:
        """Notify servers of roots that their owner has changed since they were given."""
        for session in self._sessions.values():
            if session.calls.gave_other_roots:
                session.roots.note()

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare the capabilities of a client to servers, in sessions that are opened from now on.

        A session that was opened before is opened again at the first call that needs them.
        """
        self._expected = merged(self._expected, declarable(capabilities))

    def for_listing(self, server: ServerSettings, declared: Capabilities) -> Session:
        """Any open session with these capabilities: a start costs seconds.

        A shared session that lacks those of present clients is replaced, if no calls run. One that
        lacks others stays as it is, and a session of its own lists the server.
        """
        for (name, _), session in self._sessions.items():
            if name == server.name and _serves(session, server) and session.lists_for(declared):
                return session
        shared: SessionKey = (server.name, None)
        needed = {} if server.session == "per_client" else self._expected
        session = self._session(shared, server, needed=needed, declared=declared)
        if session.lists_for(declared) or session.may_lack(declared):
            return session
        return self._session((server.name, _LISTING), server, needed={}, declared=declared)

    async def send(
        self,
        server: ServerSettings,
        call: Call,
        on_progress: OnProgress | None,
        request: UpstreamRequest,
    ) -> JSONObject:
        """Send a request of a call, again if it was not processed; see `Session.send`.

        A session that is just being opened, to list tools for instance, may have declared too
        little, which is known once its era is.

        Raises:
            UpstreamError: See `Upstreams.send`.
        """
        is_repeated = False
        while True:
            session = self.for_call(server, call)
            if call.capabilities and session.may_lack(call.capabilities):
                async with session.lease():
                    pass
                session = self.for_call(server, call)
            try:
                return await session.send(server, request, call, on_progress, self.hand_out)
            except RequestNotProcessed as again:
                if is_repeated:
                    raise again.error from again
                is_repeated = True

    def for_call(self, server: ServerSettings, call: Call) -> Session:
        """The shared session, or the client's own.

        A client without one takes over a session that was only used to list tools.
        """
        shared: SessionKey = (server.name, None)
        needed = call.capabilities
        if server.session != "per_client":
            if needed:
                self.expect(needed)
            return self._session(shared, server, needed=needed, declared=self._expected)
        own: SessionKey = (server.name, call.client.id or _SOLE_CLIENT)
        spare = self._sessions.get(shared)
        is_spare = spare is not None and spare.server.session == "per_client"
        if own not in self._sessions and spare and is_spare and covers(needed, spare.capabilities):
            self._sessions[own] = self._sessions.pop(shared)
        return self._session(own, server, needed=needed, declared=needed)

    def _session(
        self,
        key: SessionKey,
        server: ServerSettings,
        *,
        needed: Capabilities,
        declared: Capabilities,
    ) -> Session:
        """The current session; one that no longer fits is retired.

        Args:
            key: Of the session.
            server: Its settings now.
            needed: What a session of the older era must have declared.
            declared: What a new one declares, besides what the present one has.
        """
        session = self._sessions.get(key)
        if session is not None:
            if _serves(session, server) and (not needed or session.declares(needed)):
                return session
            session.replace()
            declared = merged(session.capabilities, declared)
        if self._context.questions_of(server.name).roots is not None:
            declared = merged(declared, _OWNERS_ROOTS)
        session = Session(server, self._context, self.history_of(server), declared)
        self._sessions[key] = session
        self._group.start_soon(self._run, session)
        return session

    async def _run(self, session: Session) -> None:
        try:
            await SessionTask(session, self._context, self._limiter).run()
        finally:  # a client that took it over has changed its key
            for key in [key for key, value in self._sessions.items() if value is session]:
                del self._sessions[key]


def _serves(session: Session, server: ServerSettings) -> bool:
    """Return whether a session takes new callers and has the same transport and limits."""
    opened_for = session.server
    if opened_for is server:
        return not session.is_retired
    is_alike = (opened_for.transport, opened_for.limits.answer_mib) == (
        server.transport,
        server.limits.answer_mib,
    )
    return is_alike and not session.is_retired


async def _observed(task: OpenTask, call: Call, answer: JSONObject) -> JSONObject:
    """The state of a task, as its client is given it."""
    state = TaskState.from_json(task.server, answer)
    if state.id != task.state.id:
        raise invalid_task(task.server, "what it reports is about another task")
    report = state.shown(task.server, task.handle, LONGEST_LIFE)
    task.observe(state)
    if state.status == "input_required":
        questions = call.read_questions(answer)
        requests = (await call.annotated(answer, questions))["inputRequests"]
        report["inputRequests"] = {key: requests[key] for key in questions}
    return report
