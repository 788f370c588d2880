"""The changes of tasks, some of which other gateways have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS
from discovery_server.request_state import OtherGatewayError
from discovery_server.task_updates import TaskUpdates
from tests.rows import rows

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("TSK-27")]

SILENT = OtherGatewayError("0123456789abcdef", is_task=True, is_silent=True)


class Written:
    """A `ClientStream` of which the messages are kept."""

    is_congested = False

    def __init__(self) -> None:
        self.messages: list[JSONObject] = []

    def write(self, message: JSONObject) -> None:
        self.messages.append(message)


def state(status: str) -> JSONObject:
    return {"taskId": "t", "status": status, "pollIntervalMs": 1}


async def test_a_task_of_a_gateway_that_is_silent_delays_no_other_one() -> None:
    looked = anyio.Event()

    async def look(task: str) -> JSONObject:
        if task == "silent":
            await looked.wait()
            raise SILENT
        looked.set()
        return state("working")

    with anyio.fail_after(60):
        found = await TaskUpdates(look).find(["silent", "b", "a"])

    assert found == ["b", "a"]


@rows(
    ("error", "last"),
    [(SILENT, "completed"), (RpcError(INVALID_PARAMS, "TASK_NOT_FOUND"), "working")],
    ids=["silent", "unknown"],
)
async def test_a_task_is_followed_until_it_is_over_or_unknown(error: RpcError, last: str) -> None:
    answers: Iterator[JSONObject | RpcError] = iter([state("working"), error, state("completed")])

    async def look(_: str) -> JSONObject:
        answer = next(answers)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    updates, written = TaskUpdates(look), Written()
    await updates.find(["t"])
    with anyio.fail_after(60):
        await updates.follow(written, {})  # type: ignore[arg-type]

    assert written.messages[-1]["params"]["status"] == last, json.dumps(written.messages)
