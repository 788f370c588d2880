from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import anyio
import pytest

from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError, RpcError
from discovery_engine.rpc.pending import PendingRequests
from discovery_engine.rpc.protocol import CONNECTION_CLOSED
from tests.rows import rows

pytestmark = pytest.mark.anyio


def report(requests: PendingRequests, token: object, progress: object = 1) -> None:
    requests.report({"progressToken": token, "progress": progress})


async def block(*_: Any) -> None:
    await anyio.sleep_forever()


@pytest.mark.requirement("UPS-84")
async def test_a_progress_callback_that_blocks_does_not_hold_up_the_timeout() -> None:
    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(0.05), block)
    report(requests, number)

    with anyio.fail_after(60), pytest.raises(RequestTimeoutError):
        await request.wait()


@pytest.mark.requirement("UPS-84")
async def test_a_progress_callback_that_blocks_loses_no_result() -> None:
    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(0.05), block)
    report(requests, number)
    requests.settle(number, {"ok": 1})

    with anyio.fail_after(60):
        assert await request.wait() == {"ok": 1}


@pytest.mark.requirement("UPS-84")
async def test_a_progress_callback_that_blocks_does_not_hide_the_end_of_the_connection() -> None:
    requests = PendingRequests()
    number, request = requests.add(None, block)
    report(requests, number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def close() -> None:
                await anyio.wait_all_tasks_blocked()
                requests.close()

            tasks.start_soon(close)
            with pytest.raises(RpcError) as closed:
                await request.wait()
    assert closed.value.code == CONNECTION_CLOSED


async def test_no_progress_callback_begins_after_the_end_of_the_connection() -> None:
    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(600), block)
    report(requests, number)
    requests.close()

    with anyio.fail_after(60), pytest.raises(RpcError, match="Connection closed"):
        await request.wait()


@pytest.mark.requirement("UPS-84")
async def test_a_progress_callback_that_raises_is_logged_and_the_request_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, *_: Any) -> None:
        seen.append(progress)
        raise TimeoutError("the client has left")

    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(10), on_progress)
    report(requests, number, 1)
    report(requests, number, 2)
    requests.settle(number, {"ok": 1})

    with caplog.at_level(logging.WARNING), anyio.fail_after(60):
        assert await request.wait() == {"ok": 1}
    assert seen == [1, 2]
    assert caplog.text.count("A progress callback failed") == 1, "not for each report"


async def test_a_caller_that_is_cancelled_within_its_progress_callback_is_cancelled() -> None:
    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(10), block)
    report(requests, number)

    with anyio.move_on_after(0.01) as scope:
        await request.wait()
    assert scope.cancelled_caught


@pytest.mark.thorough
async def test_a_request_that_was_never_waited_for_leaves_no_timer() -> None:
    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(600), None)
    left = weakref.ref(request)
    requests.discard(number)
    del request
    gc.collect()

    assert left() is None, "its timer would keep it for ten minutes"


@rows("token", [True, 1.0, None, [1], {"1": 1}, 2, "one"])
async def test_progress_of_another_token_is_dropped(token: object) -> None:
    seen: list[Any] = []

    async def on_progress(*progress: Any) -> None:
        seen.append(progress)

    requests = PendingRequests()
    number, request = requests.add(RequestTimeout(10), on_progress)
    report(requests, token)
    requests.settle(number, {})

    with anyio.fail_after(60):
        await request.wait()
    assert seen == []
