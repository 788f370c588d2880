"""The tasks that clients since 2026-07-28 were given: their requests, and `notifications/tasks`.

Towards a client, a task has an id of ours, which is random and valid for that client alone. Its
server is asked for its state as a waiting client would ask, so that servers without notifications
of tasks have them, too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import anyio

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.agent.execution import task_state
from discovery_engine.agent.meta_arguments import Caller
from discovery_engine.errors import DiscoveryError, TaskNotFoundError, UpstreamProtocolError
from discovery_engine.rpc.messages import Notification, RpcError, as_json
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    TASKS_EXTENSION,
)
from discovery_server.question_text import askable, presented_requests
from discovery_server.request_state import OtherGatewayError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.scheduling import FairScheduler
    from discovery_server.client_messages import ClientStream
    from discovery_server.eras import ClientRequest

TASK_METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_HANDLE = lazy_pattern(r"[\w-]{32}\.([0-9a-f]{16})", re.ASCII)


def process_of(task: str) -> str:
    """The process that has a task, by the handle of it; empty if it names none."""
    match = _HANDLE.fullmatch(task)
    return match[1] if match else ""


def declares_tasks(params: JSONObject) -> bool:
    """Return whether the client of a request since 2026-07-28 supports tasks."""
    return TASKS_EXTENSION in (params["_meta"][CLIENT_CAPABILITIES].get("extensions") or {})


def require_tasks(params: JSONObject) -> None:
    """Check that the client of a request knows tasks.

    Raises:
        RpcError: If it does not declare the extension.
    """
    if not declares_tasks(params):
        data: JSONObject = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        text = f"Missing required client capability: the extension {TASKS_EXTENSION}"
        raise RpcError(MISSING_CLIENT_CAPABILITY, text, data)


async def serve_task(
    engine: ScopedEngine, request: ClientRequest, scheduler: FairScheduler
) -> JSONObject:
    """The result of a request about a task.

    Raises:
        RpcError: If it is answered with an error.
    """
    handle, client = request.params["taskId"], request.client
    try:
        match request.method:
            case "tasks/get":
                state = await task_state(engine, handle, Caller(client))
                return await _presented(state, request, scheduler)
            case "tasks/update":
                responses = request.params["inputResponses"]
                await engine.tasks.update(handle, responses, caller=client)
            case _:
                await engine.tasks.cancel(handle, caller=client)
    except DiscoveryError as error:
        raise _as_rpc_error(error) from error
    return {}


async def _presented(
    state: JSONObject, request: ClientRequest, scheduler: FairScheduler
) -> JSONObject:
    """A state with questions that the client can answer; their words name the server."""
    if "inputRequests" not in state:
        return state
    capabilities = askable(request.params)
    questions = await presented_requests(
        state["inputRequests"], capabilities, request.version, scheduler
    )
    return {**state, "inputRequests": questions}


def unknown_task() -> RpcError:
    """The answer for a task that does not exist for a client, whatever the reason."""
    return _as_rpc_error(TaskNotFoundError())


def _as_rpc_error(error: DiscoveryError) -> RpcError:
    code = INTERNAL_ERROR
    if isinstance(error, TaskNotFoundError):
        code = INVALID_PARAMS
    elif isinstance(error, UpstreamProtocolError):
        code = error.rpc_code
    hint = f"; {error.hint}" if error.hint else ""
    return RpcError(code, f"{error.code}: {error.message}{hint}")


Look: TypeAlias = Callable[[str], Awaitable["JSONObject"]]
"""The state of a task, as `tasks/get` returns it; raises RpcError."""

_METHOD = "notifications/tasks"
_TASKS = 32  # of one subscription; further ones are not acknowledged
_FOUND_AT_ONCE = 16
_MIN_TASK_POLL_INTERVAL = 0.5  # seconds between two requests for one task
_MOST_FAILURES = 3  # in a row
_TERMINAL = ("completed", "failed", "cancelled")


class TaskUpdates:
    """The tasks of one subscription."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._first: dict[str, JSONObject] = {}

    async def find(self, tasks: Iterable[str]) -> list[str]:
        """Return which of the tasks the client has."""
        task_ids = list(dict.fromkeys(tasks))[:_TASKS]
        states: dict[str, JSONObject] = {}
        limiter = anyio.CapacityLimiter(_FOUND_AT_ONCE)

        async def find(task: str) -> None:
            async with limiter:
                with suppress(RpcError):  # then it is not acknowledged
                    states[task] = await self._look(task)

        async with anyio.create_task_group() as group:  # one may be at a gateway that is silent
            for task in task_ids:
                group.start_soon(find, task)
        self._first = {task: states[task] for task in task_ids if task in states}
        return list(self._first)

    async def follow(self, stream: ClientStream, meta: JSONObject) -> None:
        """Write the present state of each task that was found, and each change, to the last."""
        async with anyio.create_task_group() as tasks:
            for task, state in self._first.items():
                tasks.start_soon(self._follow, task, state, stream, meta)

    async def _follow(
        self, task: str, state: JSONObject, stream: ClientStream, meta: JSONObject
    ) -> None:
        last_state: JSONObject = {}
        failures = 0
        while True:
            if state != last_state:
                if stream.is_congested:
                    await stream.drain()
                last_state = state
                stream.write(as_json(Notification(_METHOD, _params(state, meta))))
            if state["status"] in _TERMINAL:
                return
            await anyio.sleep(max(state["pollIntervalMs"] / 1000, _MIN_TASK_POLL_INTERVAL))
            try:
                state, failures = await self._look(task), 0
            except RpcError as error:
                failures += 1
                if _is_unknown(error) or failures == _MOST_FAILURES:
                    return


def _is_unknown(error: RpcError) -> bool:
    """Return whether the task is gone for certain; a gateway that is silent may have it still."""
    return error.code == INVALID_PARAMS and not isinstance(error, OtherGatewayError)


def _params(state: JSONObject, meta: JSONObject) -> JSONObject:
    members = {name: value for name, value in state.items() if name != "resultType"}
    return {**members, "_meta": {**(members.get("_meta") or {}), **meta}}
