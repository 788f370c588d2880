from __future__ import annotations

import asyncio
from collections.abc import Hashable

import anyio
import pytest

from discovery_engine.rpc.messages import RequestTimeout
from discovery_engine.rpc.request_timer import (
    Look,
    RequestTimeLimit,
    RequestTimer,
    SharedTimer,
)

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


class LateTimer(SharedTimer):
    """Looks four seconds late, as a loop does that other work holds up."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def add(self, key: Hashable, deadline: float, look: Look) -> None:
        next_look: float | None = deadline
        while next_look is not None:
            self._clock.now = next_look + 4
            next_look = look()


@pytest.mark.requirement("UPS-40")
async def test_time_in_which_the_loop_is_held_up_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, expired = ManualClock(), []
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.time)

    RequestTimer(RequestTimeout(30), expired.append, LateTimer(clock))

    assert len(expired) == 1
    assert clock.now >= 5 * 30


async def test_errors_and_cancellation_from_outside_pass_a_time_limit_unchanged() -> None:
    with pytest.raises(KeyError), RequestTimeLimit(RequestTimeout(60)):
        raise KeyError

    with anyio.CancelScope() as scope, RequestTimeLimit(RequestTimeout(60)):
        scope.cancel()
        await anyio.sleep_forever()

    assert scope.cancelled_caught
