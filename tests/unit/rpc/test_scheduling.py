from __future__ import annotations

from collections.abc import Generator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from discovery_engine.rpc.scheduling import FairScheduler, Quota

pytestmark = pytest.mark.anyio

HUGE = 1_000_000


class Worker:
    """Works for a while at each step, and tells how long it has worked and rested in all."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.worked = 0.0
        self.rested: list[float] = []

    def steps(self, count: int, value: str = "done") -> Generator[None, None, str]:
        for _ in range(count):
            self.worked += self.step
            yield
        return value

    async def sleep(self, seconds: float) -> None:
        self.rested.append(seconds)
        await checkpoint()

    def scheduler(self) -> FairScheduler:
        return FairScheduler(worked=lambda: self.worked, sleep=self.sleep)


async def test_what_is_large_does_not_wait_for_what_is_huge() -> None:
    worker = Worker(step=0.0001)
    scheduler, done = worker.scheduler(), []

    async def read(name: str, count: int, size: int) -> None:
        await scheduler.run(worker.steps(count), size=size)
        done.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, "huge", 1000, HUGE)
        tasks.start_soon(read, "next", 1, HUGE)
        tasks.start_soon(read, "large", 20, 100_000)

    assert done == ["large", "huge", "next"]


async def test_who_has_spent_the_allowance_rests_and_an_answer_renews_it() -> None:
    worker = Worker(step=0.0)
    quota = Quota(worker.scheduler())

    for number in range(1000):
        quota.spend(1)
        if number == 200:
            quota.reset()
        await quota.pause_if_spent()

    assert len(worker.rested) == (1000 - 200) // 256


async def test_others_have_their_turn_before_the_allowance_is_spent() -> None:
    quota, turns, seen = Quota(FairScheduler()), 0, []

    async def count() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await checkpoint()
        for _ in range(250):
            quota.spend(1)
            await quota.pause_if_spent()
            seen.append(turns)
        tasks.cancel_scope.cancel()

    assert len(set(seen)) == 1 + 250 // 64
