from __future__ import annotations

import anyio
import pytest

from discovery_engine.upstream.promise import Promise
from discovery_engine.upstream.starts import Starts

pytestmark = pytest.mark.anyio


async def hold(starts: Starts, started: list[str], name: str, *, leaves: bool = False) -> None:
    async with starts.turn() as leave:
        started.append(name)
        if leaves:
            leave()
            leave()
        await anyio.sleep_forever()


async def test_only_so_many_start_at_once() -> None:
    started: list[str] = []

    async with anyio.create_task_group() as tasks:
        starts = Starts(2)
        for name in "abc":
            tasks.start_soon(hold, starts, started, name)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert started == ["a", "b"]


async def test_who_has_started_leaves_the_place_to_the_next() -> None:
    started: list[str] = []

    async with anyio.create_task_group() as tasks:
        starts = Starts(1)
        for name in "abc":
            tasks.start_soon(lambda n: hold(starts, started, n, leaves=n == "a"), name)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert started == ["a", "b"]


@pytest.mark.requirement("UPS-3")
async def test_who_takes_long_gives_the_place_up() -> None:
    started: list[str] = []
    starts = Starts(1, slow=0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold, starts, started, "slow")
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            async with starts.turn():
                started.append("next")
        tasks.cancel_scope.cancel()

    assert started == ["slow", "next"]


async def test_who_is_cancelled_while_starting_frees_the_place() -> None:
    starts = Starts(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold, starts, [], "cancelled")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    with anyio.fail_after(20):
        async with starts.turn():
            pass


async def test_a_promise_is_settled_once_for_all() -> None:
    kept: Promise[int] = Promise()
    broken: Promise[int] = Promise()
    error = ValueError("first")

    kept.set(1)
    kept.set(2)
    kept.fail(error)
    broken.fail(error)
    broken.fail(ValueError("second"))
    broken.set(3)

    assert await kept.wait() == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            await broken.wait()
