from __future__ import annotations

import anyio
import pytest

from discovery_engine.upstream.patience import Patience

pytestmark = pytest.mark.anyio


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    pass


async def tell_without_end(patience: Patience, told: list[None]) -> None:
    assert patience.on_progress is not None
    while True:
        await anyio.sleep(0.005)
        await patience.on_progress(1, None, None)
        told.append(None)


async def test_without_progress_it_ends_after_a_step() -> None:
    patience = Patience(0.01, None)

    with anyio.fail_after(5), pytest.raises(TimeoutError), patience:
        await anyio.sleep_forever()

    assert patience.seconds == 0.01
    assert patience.on_progress is None


async def test_progress_extends_it_up_to_the_longest() -> None:
    patience = Patience(0.05, ignore, longest=0.2)
    told: list[None] = []

    with anyio.fail_after(5), pytest.raises(TimeoutError), patience:
        await tell_without_end(patience, told)

    assert len(told) > 10
    assert patience.seconds == 0.2


async def test_the_owner_may_grant_more_than_the_longest() -> None:
    patience = Patience(1000, ignore, longest=600)

    with patience:
        deadline = anyio.current_effective_deadline() - anyio.current_time()

    assert 990 < deadline <= 1000


async def test_what_the_block_raises_and_who_cancels_it_are_left_alone() -> None:
    with pytest.raises(KeyError), Patience(60, None):
        raise KeyError

    with anyio.CancelScope() as scope, Patience(60, None):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
