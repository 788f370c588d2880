"""What is ready while a write is under way is written together after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine.catalog_store import GroupCommit
from tests.rows import rows

pytestmark = pytest.mark.anyio


class Writer:
    """Writes numbers, each group once `let` is set; the result of a number is its double."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.let = anyio.Event()
        self.groups: list[list[int]] = []
        self.results: dict[int, int] = {}
        self.errors: dict[int, str] = {}
        self.commit = GroupCommit(self.turn, self.write)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self.lock:
            yield

    async def write(self, numbers: Sequence[int]) -> list[int]:
        self.groups.append([*numbers])
        await self.let.wait()
        if 13 in numbers:
            raise ValueError("13 cannot be written")
        return [2 * number for number in numbers]

    async def add(self, number: int) -> None:
        try:
            self.results[number] = await self.commit.add(number)
        except ValueError as error:
            self.errors[number] = str(error)


async def test_what_comes_during_a_write_is_written_together_after_it() -> None:
    writer = Writer()
    async with open_task_group() as tasks:
        tasks.start_soon(writer.add, 0)
        await anyio.wait_all_tasks_blocked()
        for number in range(1, 4):
            tasks.start_soon(writer.add, number)
        await anyio.wait_all_tasks_blocked()
        writer.let.set()

    assert writer.groups == [[0], [1, 2, 3]]
    assert writer.results == {0: 0, 1: 2, 2: 4, 3: 6}


async def test_an_error_is_of_its_group_alone() -> None:
    writer = Writer()
    async with open_task_group() as tasks:
        tasks.start_soon(writer.add, 0)
        await anyio.wait_all_tasks_blocked()
        for number in (1, 13):
            tasks.start_soon(writer.add, number)
        await anyio.wait_all_tasks_blocked()
        writer.let.set()
    await writer.add(2)

    assert writer.results == {0: 0, 2: 4}
    assert writer.errors == dict.fromkeys((1, 13), "13 cannot be written")


@rows("gone", [1, 2])
async def test_a_caller_that_is_cancelled_leaves_no_other_of_its_group_waiting(gone: int) -> None:
    writer = Writer()
    scope = anyio.CancelScope()

    async def add_until_cancelled() -> None:
        with scope:
            await writer.add(gone)

    async with open_task_group() as tasks:
        tasks.start_soon(writer.add, 0)
        await anyio.wait_all_tasks_blocked()
        for number in (1, 2):  # the first of a group writes it
            if number == gone:
                tasks.start_soon(add_until_cancelled)
            else:
                tasks.start_soon(writer.add, number)
            await checkpoint()
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await checkpoint()
        writer.let.set()

    assert writer.groups == [[0], [1, 2]]
    assert writer.results.keys() >= {0, 3 - gone}
