from __future__ import annotations

import json
from collections import deque
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from discovery_engine.rpc.in_flight import PendingRequests
from discovery_engine.rpc.messages import ErrorResponse, Response
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.stdio.pipes import MessageReader
from tests.rows import rows

pytestmark = pytest.mark.anyio


class Pieces(ByteReceiveStream):
    """A stream of bytes that were all written long ago."""

    def __init__(self, data: bytes, size: int = 64 * 1024) -> None:
        self._pieces = deque(data[i : i + size] for i in range(0, len(data), size))

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._pieces:
            raise anyio.EndOfStream
        return self._pieces.popleft()

    async def aclose(self) -> None:
        pass


class CountingScheduler(FairScheduler):
    def __init__(self) -> None:
        super().__init__()
        self.rests = 0
        self.slowly_read = 0

    async def pause(self) -> None:
        self.rests += 1

    async def run(self, slices: Any, *, size: int) -> Any:
        self.slowly_read += 1
        return await super().run(slices, size=size)


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def answer(number: int, **result: Any) -> bytes:
    return line(id=number, result=result)


def reader_of(data: bytes, *asked: int, **options: Any) -> tuple[MessageReader, CountingScheduler]:
    pending, scheduler = sent(*asked), CountingScheduler()
    reader = MessageReader(Pieces(data), pending, scheduler, on_end=lambda: None, **options)
    return reader, scheduler


def sent(*requests: int) -> PendingRequests:
    """The requests 1, 2, … in flight."""
    pending = PendingRequests()
    assert [pending.add(None, None)[0] for _ in requests] == list(requests)
    return pending


async def messages(reader: MessageReader) -> list[Any]:
    found = []
    async for message in reader:
        found.append(message)
        if isinstance(message, Response | ErrorResponse):
            reader._pending.settle(message.id, {})
    return found


@pytest.mark.requirement("UPS-13")
@rows(
    ("noise", "rests"),
    [
        pytest.param(b"garbage\n" * 10_000, 39, id="garbage"),
        pytest.param(b"\n" * 10_000, 39, id="blank-lines"),
        pytest.param(line(method="n") * 10_000, 39, id="notifications"),
        pytest.param(line(method="notifications/progress") * 1000, 15, id="progress"),
        pytest.param(line(id=5, method="ping") * 1000, 7, id="requests"),
        pytest.param(b"x" * 4_000_000 + b"\n", 3, id="too-long"),
        pytest.param(b"garbage\n" * 200, 0, id="a-banner"),
    ],
)
async def test_a_server_that_says_much_unasked_has_to_wait(noise: bytes, rests: int) -> None:
    reader, scheduler = reader_of(noise + answer(1), 1, limit=1024 * 1024)

    await messages(reader)

    assert scheduler.rests == rests


@rows("is_last", [False, True])
async def test_an_answer_that_is_too_long_fails_its_request_once(is_last: bool) -> None:
    fields = {"result": {"text": "x" * 3000}, "jsonrpc": "2.0"}
    long = fields | {"id": 1} if is_last else {"jsonrpc": "2.0", "id": 1} | fields
    data = json.dumps(long).encode() + b"\n" + answer(2)
    ids = sent(1, 2)
    reader = MessageReader(
        Pieces(data, 1000), ids, FairScheduler(), on_end=lambda: None, limit=2048
    )

    found = await messages(reader)

    assert [(type(message), message.id) for message in found] == [
        (ErrorResponse, 1),
        (Response, 2),
    ]
    assert (ids.unsolicited, ids.duplicates) == (0, 0)
