"""Requests of clients since 2026-07-28 about the tasks that they were given.

Towards a client, a task has an id of ours, which is random and valid for that client alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from discovery_engine.agent.caller import Caller
from discovery_engine.agent.execution import task_state
from discovery_engine.errors import DiscoveryError, TaskNotFoundError, UpstreamProtocolError
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    TASKS_EXTENSION,
)
from discovery_server.question_text import askable, presented_requests

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.rpc.scheduling import FairScheduler

TASK_METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_HANDLE = re.compile(r"[\w-]{32}\.([0-9a-f]{16})", re.ASCII)


class TaskRequest(Protocol):
    """A request of a client, as the gateway has it."""

    @property
    def method(self) -> str: ...
    @property
    def params(self) -> JSONObject: ...
    @property
    def version(self) -> str: ...
    @property
    def client(self) -> Client | None: ...


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
    engine: ScopedEngine, request: TaskRequest, scheduler: FairScheduler
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
    state: JSONObject, request: TaskRequest, scheduler: FairScheduler
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
