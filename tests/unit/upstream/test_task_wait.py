"""How long a task is waited for, and what a server may report of one."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import (
    UpstreamProtocolError,
)
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, QuestionSettings, UpstreamRequest
from discovery_engine.upstream.task import TaskState, TaskWait
from tests.rows import rows

pytestmark = pytest.mark.anyio

SERVER = ServerName("tasks")
WORKING: JSONObject = {"taskId": "one", "status": "working", "pollIntervalMs": 1}
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
DONE: JSONObject = {"content": []}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Holder:
    """A server with one task, which is in these states one after another."""

    is_lost = False

    def __init__(self, *states: JSONObject | Exception) -> None:
        self.states = list(states)
        self.requests: list[str] = []
        self.limits: list[float] = []

    async def ask(self, request: UpstreamRequest, seconds: float) -> JSONObject:
        self.requests.append(request.method)
        self.limits.append(seconds)
        if request.method != "tasks/get":
            return {}
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return WORKING | state


def wait(holder: Holder, *, seconds: float = 30.0, client: Any = None) -> TaskWait:
    call = Call(SERVER, client, lambda _: QuestionSettings(), FairScheduler())
    state = TaskState.from_json(SERVER, WORKING)
    return TaskWait(
        state, call, "work", holder.ask, None, seconds=seconds, is_lost=lambda: holder.is_lost
    )


@pytest.mark.requirement("TSK-4")
async def test_the_time_of_a_task_stands_still_while_a_question_waits() -> None:
    async def think(method: str, params: JSONObject) -> JSONObject:
        await anyio.sleep(1.0)  # longer than the task may take
        return {"action": "accept"}

    asking = {"status": "input_required", "inputRequests": {"sure": FORM}}
    holder = Holder(asking, {"status": "completed", "result": DONE})
    client = CallbackClient(think, capabilities={"elicitation": {}})

    with anyio.fail_after(60):
        result = await wait(holder, seconds=0.9, client=client).result()

    assert result == DONE
    assert holder.requests == ["tasks/get", "tasks/update", "tasks/get"]


@pytest.mark.requirement("TSK-2")
@rows(
    ("wanted", "seconds"),
    [
        ({}, 1.0),
        ({"pollIntervalMs": 5000}, 5.0),
        ({"pollIntervalMs": 0}, 0.1),
        ({"pollIntervalMs": -5}, 0.1),
        ({"pollIntervalMs": 3_600_000}, 30.0),
        ({"pollIntervalMs": 10**400}, 1.0),
        ({"pollIntervalMs": float("nan")}, 1.0),
        ({"pollIntervalMs": "soon"}, 1.0),
        ({"pollIntervalMs": True}, 1.0),
    ],
)
def test_the_interval_of_a_server_is_kept_within_bounds(wanted: JSONObject, seconds: float) -> None:
    state: JSONObject = {"taskId": "one", "status": "working"}

    assert TaskState.from_json(SERVER, state | wanted).interval == seconds


@pytest.mark.requirement("TSK-8")
@given(
    st.dictionaries(
        st.sampled_from(["taskId", "status", "statusMessage", "pollIntervalMs", "result"]),
        JSON | st.sampled_from(["working", "completed", "task-1"]),
    )
)
def test_whatever_a_server_reports_is_a_state_or_an_error_of_the_protocol(
    reported: JSONObject,
) -> None:
    try:
        state = TaskState.from_json(SERVER, reported)
    except UpstreamProtocolError:
        return

    assert 0.1 <= state.interval <= 30.0
    assert state.id == reported["taskId"]
    assert len(state.message) <= 500
