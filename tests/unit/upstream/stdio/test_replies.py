from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine.rpc.messages import Request
from discovery_engine.upstream.stdio.replies import Replies

pytestmark = pytest.mark.anyio


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


async def sent(replies: Replies, pipe: Pipe) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replies.drain, pipe)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("UPS-53")
async def test_a_sign_of_life_is_given_and_all_else_refused() -> None:
    replies, pipe = Replies(), Pipe()

    assert replies.enqueue(asked(1))
    assert replies.enqueue(asked("two", "sampling/createMessage"))
    await sent(replies, pipe)

    ping, refusal = pipe.messages
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (refusal["id"], refusal["error"]["code"]) == ("two", -32601)
    assert refusal["error"]["message"] == "sampling/createMessage is not supported"


@pytest.mark.requirement("UPS-53")
async def test_who_asks_and_does_not_read_is_not_answered_any_more() -> None:
    replies, pipe = Replies(), Pipe()

    answered = [replies.enqueue(asked(number)) for number in range(1500)]
    await sent(replies, pipe)

    assert answered == [True] * 1000 + [False] * 500
    assert [message["id"] for message in pipe.messages] == list(range(1000))
    assert len(pipe.writes) == 1


async def test_an_id_that_is_a_burden_is_not_sent_back_and_a_method_is_named_in_short() -> None:
    replies, pipe = Replies(), Pipe()

    assert not replies.enqueue(asked("x" * 10_000))
    assert replies.enqueue(asked(1, "m" * 10_000))
    await sent(replies, pipe)

    assert len(b"".join(pipe.writes)) < 500
