from __future__ import annotations

import anyio
import pytest

from discovery_engine.upstream.call_timeout import CallTimeout

pytestmark = pytest.mark.anyio


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    pass


async def test_without_progress_it_ends_after_a_step() -> None:
    limit = CallTimeout(0.01, None)

    with anyio.fail_after(20), pytest.raises(TimeoutError), limit:
        await anyio.sleep_forever()

    assert limit.seconds == 0.01
    assert limit.on_progress is None


async def granted_by_progress(limit: CallTimeout) -> float:
    """Seconds by which a word of progress puts the end off."""
    assert limit.on_progress is not None
    with limit:
        before = anyio.current_effective_deadline()
        await anyio.sleep(0.01)
        await limit.on_progress(1, None, None)
        return anyio.current_effective_deadline() - before


async def test_progress_grants_another_step() -> None:
    limit = CallTimeout(100, ignore)

    assert await granted_by_progress(limit) > 0
    assert limit.seconds == 100


async def test_progress_never_grants_more_than_the_longest() -> None:
    limit = CallTimeout(100, ignore, longest=100.001)

    assert await granted_by_progress(limit) == pytest.approx(0.001)
    assert limit.seconds == 100.001


async def test_the_owner_may_grant_more_than_the_longest() -> None:
    limit = CallTimeout(1000, ignore, longest=600)

    with limit:
        deadline = anyio.current_effective_deadline() - anyio.current_time()

    assert 990 < deadline <= 1000


async def test_what_the_block_raises_and_who_cancels_it_are_left_alone() -> None:
    with pytest.raises(KeyError), CallTimeout(60, None):
        raise KeyError

    with anyio.CancelScope() as scope, CallTimeout(60, None):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
