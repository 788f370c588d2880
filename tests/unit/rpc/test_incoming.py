from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.in_flight import IncomingRequests, Work
from discovery_engine.rpc.messages import ErrorResponse, Response
from tests.rows import rows

pytestmark = pytest.mark.anyio


class Requests:
    """Incoming requests, their answers, and how many are worked on."""

    def __init__(self, most: int) -> None:
        self.answers: list[Response | ErrorResponse] = []
        self.release = anyio.Event()
        self.started: list[int] = []
        self.cancelled = self.ended = 0
        self.incoming = IncomingRequests(most=most, on_end=self._end)

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.incoming.start(number, self.work(number), self.respond, size=10)

    def respond(self, answer: Response | ErrorResponse | None) -> None:
        if answer:
            self.answers.append(answer)
        else:
            self.cancelled += 1

    def work(self, number: int) -> Work:
        async def run() -> JSONObject:
            self.started.append(number)
            await self.release.wait()
            return {"number": number}

        return run

    def outcomes(self) -> dict[object, object]:
        return {
            one.id: one.result if isinstance(one, Response) else one.error.code
            for one in self.answers
        }

    def _end(self) -> None:
        self.ended += 1


@asynccontextmanager
async def requests(most: int = 2) -> AsyncIterator[Requests]:
    made = Requests(most)
    with anyio.fail_after(60):
        try:
            yield made
        finally:
            await made.incoming.close()


async def settled(made: Requests) -> None:
    while len(made.incoming):
        await anyio.lowlevel.checkpoint()


async def test_so_many_are_worked_on_at_once_and_the_others_in_order() -> None:
    async with requests(most=2) as made:
        made.start(1, 2, 3, 4)
        await anyio.wait_all_tasks_blocked()
        first, waiting = list(made.started), (len(made.incoming), made.incoming.size)
        made.release.set()
        await settled(made)

    assert first == [1, 2]
    assert waiting == (4, 40)
    assert [one.id for one in made.answers] == [1, 2, 3, 4]
    assert (made.ended, made.incoming.size) == (4, 0)


@pytest.mark.requirement("SRV-45")
@rows("most", [1, 2], ids=["while it waits", "before its task has begun"])
async def test_what_is_cancelled_before_it_begins_is_never_begun(most: int) -> None:
    async with requests(most) as made:
        made.start(1, 2)
        made.incoming.cancel({"requestId": 2})
        made.release.set()
        await settled(made)

    assert made.started == [1]
    assert made.outcomes() == {1: {"number": 1}}


async def test_closing_answers_what_is_unanswered_with_an_error() -> None:
    async with requests(most=1) as made:
        made.start(1, 2, 3)
        made.incoming.cancel({"requestId": 3})
        await anyio.wait_all_tasks_blocked()

    assert made.outcomes() == {1: -32000, 2: -32000}
    assert made.started == [1]


async def test_two_requests_with_one_id_are_both_answered() -> None:
    async with requests() as made:
        made.start(1, 1)
        made.release.set()
        await settled(made)

    assert [one.id for one in made.answers] == [1, 1]
