"""`notifications/tasks`: the changes of tasks, for the client that subscribed to its own.

The server of a task is asked for its state as a waiting client would ask, so that servers without
such notifications have them, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import anyio

from discovery_engine.rpc.messages import Notification, as_json
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS
from discovery_server.request_state import OtherGatewayError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.client_stream import ClientStream

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
