from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import Limits
from discovery_engine.upstream.concurrency import CallLimiter, QueueFull, StartLimiter

pytestmark = pytest.mark.anyio

LIMITS = Limits(calls=2, queue=3)


@asynccontextmanager
async def one(slots: CallLimiter, *, max_wait: float) -> AsyncIterator[None]:
    await slots.acquire(max_wait=max_wait)
    try:
        yield
    finally:
        slots.release()


async def test_who_came_first_is_served_first() -> None:
    slots, held = CallLimiter(Limits(calls=1)), []

    async def use(name: str) -> None:
        async with one(slots, max_wait=60):
            held.append(name)

    async with anyio.create_task_group() as tasks, one(slots, max_wait=60):
        for name in "abc":
            tasks.start_soon(use, name)
            await anyio.wait_all_tasks_blocked()

    assert held == ["a", "b", "c"]


async def start(
    starts: StartLimiter, started: list[str], name: str, *, leaves: bool = False
) -> None:
    async with starts.slot() as leave:
        started.append(name)
        if leaves:
            leave()
            leave()
        await anyio.sleep_forever()


@pytest.mark.requirement("UPS-3")
async def test_who_takes_long_gives_the_place_up() -> None:
    started: list[str] = []
    starts = StartLimiter(1, slow=0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start, starts, started, "slow")
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            async with starts.slot():
                started.append("next")
        tasks.cancel_scope.cancel()

    assert started == ["slow", "next"]


@given(lends=st.lists(st.booleans(), max_size=12))
async def test_after_all_is_given_back_there_are_as_many_slots_as_before(lends: list[bool]) -> None:
    slots = CallLimiter(Limits(calls=2, queue=100))
    running, most = 0, 0

    async def use(*, lends: bool) -> None:
        nonlocal running, most
        async with one(slots, max_wait=60):
            running, most = running + 1, max(most, running + 1)
            await anyio.lowlevel.checkpoint()
            if lends:
                with slots.lent():
                    running -= 1
                    await anyio.lowlevel.checkpoint()
                running += 1
            await anyio.lowlevel.checkpoint()
            running -= 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for does in lends:
                tasks.start_soon(lambda does=does: use(lends=does))
        async with one(slots, max_wait=60), one(slots, max_wait=60):
            with pytest.raises(QueueFull):
                async with one(slots, max_wait=0):
                    pass
    assert most <= 2 + sum(lends)
