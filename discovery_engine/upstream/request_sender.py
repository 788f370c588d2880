"""Sends the request of a call, once, over the session of its client."""

from __future__ import annotations

import sys

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import Limits, ServerSettings
from discovery_engine.rpc.peer import OnProgress
from discovery_engine.upstream.call import Call
from discovery_engine.upstream.call_connection import CallConnection, require_flat
from discovery_engine.upstream.concurrency import CallLimiter
from discovery_engine.upstream.open_tasks import LONGEST_LIFE, OpenTasks
from discovery_engine.upstream.requests import CALL_TOOL, UpstreamRequest
from discovery_engine.upstream.rpc_client import LONGEST_CALL, RpcClient
from discovery_engine.upstream.server_lists import ServerLists
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_pool import SessionPool
from discovery_engine.upstream.task import TaskState, is_task, unexpected_task
from discovery_engine.upstream.task_wait import RisingProgress, TaskWait


class RequestSender:
    """Has at most `everywhere` requests in flight at all servers."""

    def __init__(
        self, sessions: SessionPool, lists: ServerLists, tasks: OpenTasks, *, everywhere: int
    ) -> None:
        self._sessions = sessions
        self._lists = lists
        self._tasks = tasks
        self._everywhere = CallLimiter(Limits(calls=everywhere, queue=sys.maxsize))

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        call: Call,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """The result of a request; of a tool that answers with a task, that of its task.

        Raises:
            RequestNotProcessed: If the server provably did not process it.
            UpstreamError: As `Upstreams.send`.
        """
        session = await self._sessions.ready_for(server, call)
        with session.calls.including(call):
            async with session.lease() as rpc:
                if (level := call.client.log_level) is not None:
                    await session.request_messages(rpc, level)
                connection = self.connection(session, rpc, server, call)
                if rpc.offers_tasks and request.method == CALL_TOOL:
                    result = await self._task_result(connection, request, on_progress)
                else:
                    result = await connection.send(request, on_progress)
                    if is_task(result):
                        raise unexpected_task(server.name, request.method)
        await require_flat(server, result)
        session.history.record_success()
        return result

    def connection(
        self, session: Session, rpc: RpcClient, server: ServerSettings, call: Call
    ) -> CallConnection:
        """A session that is leased, for the requests of one call."""
        return CallConnection(
            session, rpc, server, call, lists=self._lists, everywhere=self._everywhere
        )

    async def _task_result(
        self, connection: CallConnection, request: UpstreamRequest, on_progress: OnProgress | None
    ) -> JSONObject:
        """The result of a call that may become a task."""
        progress = RisingProgress(on_progress) if on_progress else None
        result = await connection.send(request, progress.report if progress else None)
        if not is_task(result):
            return result
        server, call = connection.server, connection.call
        state = TaskState.from_json(server.name, result)
        if call.client.takes_tasks and self._tasks.has_room(call.client.id):
            session, owner = connection.session, call.client.id
            task = self._tasks.add(session, server.name, request.subject, owner, state)
            return {"resultType": "task", **state.seed(task.handle, LONGEST_LIFE)}
        longest = max(server.timeouts.call, LONGEST_CALL)
        wait = TaskWait(state, call, request.subject, connection, progress, seconds=longest)
        return await wait.result()
