"""The streams of HTTP towards clients that read slowly, or nothing."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from discovery_engine._util.json import JSONObject
from discovery_server.http.request import Accepted
from discovery_server.http.streams import EventStream, PostStream, RelayedStream
from tests.rows import rows

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-27")]

BOTH = Accepted(json=True, events=True)
LARGE = "x" * 400_000


class Reader:
    """A client that takes what is sent only when it is told to."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.may_read = anyio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.may_read.wait()
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(one.get("body", b"") for one in self.messages)

    @property
    def is_whole(self) -> bool:
        last = self.messages[-1]
        return last["type"] == "http.response.body" and not last.get("more_body")


def notification(text: str = "") -> JSONObject:
    return {"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": text}}


def answer(number: int) -> JSONObject:
    return {"jsonrpc": "2.0", "id": number, "result": {}}


@rows("make", [EventStream, lambda: PostStream(BOTH)])
async def test_a_writer_waits_for_a_client_that_does_not_read(make: Any) -> None:
    stream, reader = make(), Reader()
    stream.begin()
    drained = anyio.Event()

    async def write() -> None:
        for _ in range(4):
            stream.write(notification(LARGE))
        await stream.drain()
        drained.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(stream.respond, reader.send)
            await anyio.wait_all_tasks_blocked()
            before = drained.is_set(), stream.is_congested
            reader.may_read.set()
            await drained.wait()
            tasks.cancel_scope.cancel()

    assert before == (False, True)
    assert reader.body.count(b"data: ") == 4


async def test_a_silent_stream_has_a_ping_every_other_time() -> None:
    stream, reader = EventStream(), Reader()
    reader.may_read.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.respond, reader.send)
            await anyio.wait_all_tasks_blocked()
            stream.ping()
            stream.write(notification())
            stream.ping()
            await anyio.wait_all_tasks_blocked()
            before = reader.body.count(b": ping")
            stream.ping()
            await anyio.wait_all_tasks_blocked()
            stream.close()

    assert (before, reader.body.count(b": ping")) == (0, 1)
    assert reader.is_whole


@pytest.mark.requirement("SRV-84")
@rows(("number", "length"), [(100, 1), (3, 30_000)])
async def test_messages_for_another_gateway_wait_until_those_before_are_taken(
    number: int, length: int
) -> None:
    stream = RelayedStream()
    messages = [notification(f"{n}{'x' * length}") for n in range(number)]
    for one in messages[:-1]:
        stream.write(one)
    was_congested = stream.is_congested
    stream.write(messages[-1])
    batches: list[list[JSONObject]] = []

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.drain)
            await anyio.lowlevel.checkpoint()
            is_congested = stream.is_congested
            batches.append(await stream.batch())
        stream.write(answer(1))
        batches.append(await stream.batch())

    assert (was_congested, is_congested, stream.is_congested) == (False, True, False)
    assert batches == [messages, []]
    assert await stream.answer() == answer(1)
