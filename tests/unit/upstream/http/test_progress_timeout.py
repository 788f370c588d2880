from __future__ import annotations

import anyio
import pytest

from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError
from discovery_engine.upstream.http.progress_timeout import ProgressTimeout

pytestmark = pytest.mark.anyio


async def test_without_progress_it_ends_after_a_step() -> None:
    limit = ProgressTimeout(RequestTimeout(0.01, 600))

    with anyio.fail_after(20), pytest.raises(RequestTimeoutError) as raised, limit:
        await anyio.sleep_forever()

    assert raised.value.seconds == 0.01


async def test_without_a_limit_it_never_ends() -> None:
    with ProgressTimeout(None):
        assert anyio.current_effective_deadline() == float("inf")


async def extended_by_progress(limit: ProgressTimeout) -> float:
    """Seconds by which progress moves the deadline."""
    with limit:
        before = anyio.current_effective_deadline()
        await anyio.sleep(0.01)
        limit.extend()
        return anyio.current_effective_deadline() - before


async def test_progress_starts_the_step_again() -> None:
    assert await extended_by_progress(ProgressTimeout(RequestTimeout(100, 600))) > 0


async def test_progress_extends_it_to_the_longest_at_most() -> None:
    limit = ProgressTimeout(RequestTimeout(100, 100.001))

    assert await extended_by_progress(limit) == pytest.approx(0.001)


async def test_the_owner_may_set_more_than_the_longest() -> None:
    with ProgressTimeout(RequestTimeout(1000, 600)):
        deadline = anyio.current_effective_deadline() - anyio.current_time()

    assert 990 < deadline <= 1000


async def test_errors_and_cancellation_from_outside_pass_unchanged() -> None:
    with pytest.raises(KeyError), ProgressTimeout(RequestTimeout(60)):
        raise KeyError

    with anyio.CancelScope() as scope, ProgressTimeout(RequestTimeout(60)):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
