from __future__ import annotations

import anyio
import pytest

from discovery_engine._util.tasks import Promise, open_task_group

pytestmark = pytest.mark.anyio


class OutOfTea(Exception):  # noqa: N818 - a fault to tell apart from all others
    pass


async def fail(cause: Exception | None = None) -> None:
    raise OutOfTea from cause


async def fail_when_cancelled() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise OutOfTea


async def test_a_lone_error_of_a_task_comes_out_as_itself() -> None:
    with pytest.raises(OutOfTea):
        async with open_task_group() as tasks:
            tasks.start_soon(fail)


async def test_a_lone_error_of_the_body_comes_out_as_itself() -> None:
    with pytest.raises(OutOfTea):
        async with open_task_group():
            await fail()


async def test_a_lone_error_comes_out_of_groups_in_groups() -> None:
    with pytest.raises(OutOfTea):
        async with open_task_group(), open_task_group() as inner:
            inner.start_soon(fail)


async def test_a_lone_error_keeps_its_cause() -> None:
    cause = LookupError("the pot is empty")

    with pytest.raises(OutOfTea) as raised:
        async with open_task_group() as tasks:
            tasks.start_soon(fail, cause)

    assert raised.value.__cause__ is cause


async def test_several_errors_stay_a_group() -> None:
    async def fail_twice() -> None:
        async with open_task_group() as tasks:
            tasks.start_soon(fail_when_cancelled)
            await anyio.wait_all_tasks_blocked()
            await fail()

    with pytest.raises(BaseExceptionGroup) as raised:
        await fail_twice()

    assert [type(error) for error in raised.value.exceptions] == [OutOfTea, OutOfTea]


async def test_without_an_error_all_tasks_are_awaited() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        done.append(number)

    async with open_task_group() as tasks:
        tasks.start_soon(work, 1)
        tasks.start_soon(work, 2)

    assert sorted(done) == [1, 2]


async def test_cancelling_from_outside_is_no_error() -> None:
    with anyio.CancelScope() as scope:
        async with open_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            scope.cancel()

    assert scope.cancelled_caught


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
