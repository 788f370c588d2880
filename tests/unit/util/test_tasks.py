from __future__ import annotations

import anyio
import pytest

from discovery_engine._util.tasks import open_task_group

pytestmark = pytest.mark.anyio


class OutOfTea(Exception):  # noqa: N818 - a fault to tell apart from all others
    pass


async def fail(cause: Exception | None = None) -> None:
    raise OutOfTea from cause


async def test_a_lone_error_comes_out_of_groups_in_groups() -> None:
    with pytest.raises(OutOfTea):
        async with open_task_group(), open_task_group() as inner:
            inner.start_soon(fail)


async def test_cancelling_from_outside_is_no_error() -> None:
    with anyio.CancelScope() as scope:
        async with open_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            scope.cancel()

    assert scope.cancelled_caught
