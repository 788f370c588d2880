from __future__ import annotations

import anyio
import pytest

from discovery_engine.rpc.messages import RequestTimeout
from discovery_engine.rpc.request_timer import RequestTimeLimit, RequestTimer

pytestmark = pytest.mark.anyio


class ManualClock:
    now = 0.0

    def time(self) -> float:
        return self.now


async def test_progress_starts_the_time_again_within_the_longest() -> None:
    clock = ManualClock()
    timer = RequestTimer(RequestTimeout(100, 130, clock), lambda _: None)
    rests = []
    for now in (20, 60):
        clock.now = now
        timer.extend()
        rests.append(timer.rest)

    assert rests == [100, 70]


async def test_errors_and_cancellation_from_outside_pass_a_time_limit_unchanged() -> None:
    with pytest.raises(KeyError), RequestTimeLimit(RequestTimeout(60)):
        raise KeyError

    with anyio.CancelScope() as scope, RequestTimeLimit(RequestTimeout(60)):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
