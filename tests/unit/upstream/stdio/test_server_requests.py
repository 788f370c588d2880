from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine.rpc.messages import Request
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.upstream.calls_in_flight import CallsInFlight
from discovery_engine.upstream.stdio.server_requests import ServerRequests

pytestmark = pytest.mark.anyio


def in_flight() -> CallsInFlight:
    """No calls."""
    return CallsInFlight(ServerName("s"), lambda _: QuestionSettings(), FairScheduler())


def asked(id_: int | str, method: str = "ping") -> Request:
    return Request(id_, method)


class Pipe:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_congested = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.writes).splitlines()]

    def write(self, line: bytes) -> None:
        self.writes.append(line)

    async def drain(self) -> None:
        await anyio.lowlevel.checkpoint()


async def sent(requests: ServerRequests, pipe: Pipe) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(requests.write_answers, pipe)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("UPS-53")
async def test_a_sign_of_life_is_given_and_all_else_refused() -> None:
    requests, pipe = (
        ServerRequests(in_flight().answer),
        Pipe(),
    )

    assert requests.accept(asked(1))
    assert requests.accept(asked("two", "sampling/createMessage"))
    await sent(requests, pipe)

    ping, refusal = pipe.messages
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (refusal["id"], refusal["error"]["code"]) == ("two", -32601)
    assert (
        refusal["error"]["message"] == "sampling/createMessage is not supported outside of a call"
    )


@pytest.mark.requirement("UPS-53")
async def test_who_asks_and_does_not_read_is_not_answered_any_more() -> None:
    requests, pipe = (
        ServerRequests(in_flight().answer),
        Pipe(),
    )

    answered = [requests.accept(asked(number)) for number in range(1500)]
    await sent(requests, pipe)

    assert answered == [True] * 1000 + [False] * 500
    assert [message["id"] for message in pipe.messages] == list(range(1000))
    assert len(pipe.writes) == 1


async def test_an_id_that_is_a_burden_is_not_sent_back_and_a_method_is_named_in_short() -> None:
    requests, pipe = (
        ServerRequests(in_flight().answer),
        Pipe(),
    )

    assert not requests.accept(asked("x" * 10_000))
    assert requests.accept(asked(1, "m" * 10_000))
    await sent(requests, pipe)

    assert len(b"".join(pipe.writes)) < 500
