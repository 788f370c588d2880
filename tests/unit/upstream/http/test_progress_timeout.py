from __future__ import annotations

import anyio
import pytest

from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError
from discovery_engine.upstream.http.progress_timeout import ProgressTimeout

pytestmark = pytest.mark.anyio


async def test_without_progress_it_ends_after_a_step() -> None:
    limit = ProgressTimeout(RequestTimeout(0.01, 600))

    with anyio.fail_after(60), pytest.raises(RequestTimeoutError) as raised, limit:
        await anyio.sleep_forever()

    assert raised.value.seconds == 0.01


async def test_without_a_limit_it_never_ends() -> None:
    with ProgressTimeout(None):
        assert anyio.current_effective_deadline() == float("inf")


async def test_errors_and_cancellation_from_outside_pass_unchanged() -> None:
    with pytest.raises(KeyError), ProgressTimeout(RequestTimeout(60)):
        raise KeyError

    with anyio.CancelScope() as scope, ProgressTimeout(RequestTimeout(60)):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
