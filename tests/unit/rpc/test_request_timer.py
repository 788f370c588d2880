from __future__ import annotations

import anyio
import pytest

from discovery_engine.rpc.peer import RequestTimeout
from discovery_engine.rpc.request_timer import PausableClock, RequestTimeLimit, RequestTimer

pytestmark = pytest.mark.anyio


class ManualClock:
    now = 0.0

    def time(self) -> float:
        return self.now


def timer_of(clock: ManualClock, seconds: float, longest: float = 0.0) -> RequestTimer:
    return RequestTimer(RequestTimeout(seconds, longest, clock), lambda _: None)


async def test_progress_starts_the_time_again() -> None:
    clock = ManualClock()
    timer = timer_of(clock, 100, 600)

    clock.now = 60
    before = timer.rest
    timer.extend()

    assert (before, timer.rest) == (40, 100)


async def test_progress_extends_it_to_the_longest_at_most() -> None:
    clock = ManualClock()
    timer = timer_of(clock, 100, 130)

    clock.now = 60
    timer.extend()

    assert timer.rest == 70


async def test_a_paused_clock_stands_still_until_the_last_pause_has_ended() -> None:
    clock = PausableClock()
    began = anyio.current_time()

    with clock.paused():
        stood_at = clock.time()
        with clock.paused():
            await anyio.sleep(0.02)
        await anyio.sleep(0.02)
        assert clock.time() == stood_at
    gone_on = clock.time() - stood_at

    assert 0 <= gone_on <= anyio.current_time() - began - 0.03


async def test_errors_and_cancellation_from_outside_pass_a_time_limit_unchanged() -> None:
    with pytest.raises(KeyError), RequestTimeLimit(RequestTimeout(60)):
        raise KeyError

    with anyio.CancelScope() as scope, RequestTimeLimit(RequestTimeout(60)):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
