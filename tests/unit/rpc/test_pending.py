from __future__ import annotations

from typing import Any

import anyio
import pytest

from discovery_engine.rpc.in_flight import PendingRequests
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import CONNECTION_CLOSED

pytestmark = pytest.mark.anyio


def report(requests: PendingRequests, token: object, progress: object = 1) -> None:
    requests.report({"progressToken": token, "progress": progress})


async def block(*_: Any) -> None:
    await anyio.sleep_forever()


@pytest.mark.requirement("UPS-50")
async def test_a_progress_callback_that_blocks_does_not_hide_the_end_of_the_connection() -> None:
    requests = PendingRequests()
    number, request = requests.add(None, block)
    report(requests, number)

    async with anyio.create_task_group() as tasks:

        async def close() -> None:
            await anyio.wait_all_tasks_blocked()
            requests.close()

        tasks.start_soon(close)
        with pytest.raises(RpcError) as closed:
            await request.wait()
    assert closed.value.code == CONNECTION_CLOSED
