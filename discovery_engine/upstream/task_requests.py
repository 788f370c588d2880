"""Requests about tasks that were handed to clients: what state they are in, answers, an end."""

from __future__ import annotations

from contextlib import nullcontext

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import RemoteTransport, ServerSettings
from discovery_engine.errors import TaskNotFoundError, UpstreamProtocolError
from discovery_engine.rpc.client import Client
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.call import Call, QuestionsOf
from discovery_engine.upstream.call_connection import require_flat
from discovery_engine.upstream.input_rounds import annotated, read_questions
from discovery_engine.upstream.open_tasks import LONGEST_LIFE, OpenTask, OpenTasks
from discovery_engine.upstream.request_sender import RequestSender
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.server_histories import ServerHistories
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_pool import SessionPool
from discovery_engine.upstream.task import TaskMethod, TaskState, invalid_task, task_request
from discovery_engine.upstream.task_wait import is_unknown


class TaskRequests:
    def __init__(
        self,
        tasks: OpenTasks,
        sessions: SessionPool,
        histories: ServerHistories,
        sender: RequestSender,
        questions_of: QuestionsOf,
        scheduler: FairScheduler,
    ) -> None:
        self._tasks = tasks
        self._sessions = sessions
        self._histories = histories
        self._sender = sender
        self._questions_of = questions_of
        self._scheduler = scheduler

    async def ask(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        caller: Client | None,
        responses: JSONObject | None = None,
    ) -> JSONObject:
        """Send a request about a task; see `Upstreams.ask_task`."""
        call = Call(server.name, caller, self._questions_of, self._scheduler)
        request = task_request(method, task.state.id, task.subject, responses)
        history = self._histories.of(server)
        with (
            history.attempt() if history.is_in_doubt else nullcontext(),
            call.holding(await history.acquire_slot(server)),
        ):
            session = self._session_of(task, server, call)
            try:
                answer = await self._answer(session, server, call, request)
            except UpstreamProtocolError as error:
                if not is_unknown(error):
                    raise
                self._tasks.remove(task)
                raise TaskNotFoundError from error
        session.history.record_success()
        if method == "tasks/cancel":
            session.release(task.handle)
        if method != "tasks/get":
            return {}
        try:
            await require_flat(server, answer)
            return await self._observed(task, call, answer)
        except UpstreamProtocolError:
            self._tasks.remove(task)
            raise

    async def _answer(
        self, session: Session, server: ServerSettings, call: Call, request: UpstreamRequest
    ) -> JSONObject:
        with session.calls.including(call):
            async with session.lease() as rpc:
                connection = self._sender.connection(session, rpc, server, call)
                return await connection.ask(request, server.timeouts.call)

    async def _observed(self, task: OpenTask, call: Call, answer: JSONObject) -> JSONObject:
        """The state of a task, as its client is given it."""
        state = TaskState.from_json(task.server, answer)
        if state.id != task.state.id:
            raise invalid_task(task.server, "what it reports is about another task")
        report = state.shown(task.server, task.handle, LONGEST_LIFE)
        task.observe(state)
        if state.status == "input_required":
            questions = read_questions(call, answer)
            requests = (await annotated(call, answer, questions))["inputRequests"]
            report["inputRequests"] = {key: requests[key] for key in questions}
        return report

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
        self._tasks.remove(task)
        raise TaskNotFoundError
