"""When somebody who says the same again and again is heard."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.debounce import Lull

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("WAT-20")]

PAUSE, LONGEST = 0.5, 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock) -> Lull:
    return Lull(pause=PAUSE, longest=LONGEST, clock=clock)


def test_it_comes_half_a_second_after_the_last_word() -> None:
    clock = Clock()
    lull = make(clock)

    lull.said()
    clock.now += 0.4
    lull.said()

    assert lull.rest == PAUSE


def test_one_who_never_stops_is_heard_all_the_same() -> None:
    clock = Clock()
    lull = make(clock)
    lull.said()
    for _ in range(33):
        clock.now += 0.3
        lull.said()

    assert lull.rest == pytest.approx(LONGEST - 33 * 0.3)


def test_one_who_says_it_again_soon_is_heard_less_often() -> None:
    clock = Clock()
    lull = make(clock)
    rests = []
    for _ in range(7):
        lull.said()
        rests.append(lull.rest)
        clock.now += lull.rest
        lull.over()

    assert rests == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_one_who_was_quiet_for_long_is_heard_as_at_first() -> None:
    clock = Clock()
    lull = make(clock)
    for _ in range(5):
        lull.said()
        lull.over()
    clock.now += LONGEST

    lull.said()

    assert lull.rest == PAUSE


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=50))
def test_nobody_waits_for_longer_than_the_longest(gaps: list[float]) -> None:
    clock = Clock()
    lull = make(clock)
    lull.said()
    begun = clock.now
    for gap in gaps:
        if lull.rest == 0.0:
            break
        clock.now += min(gap, lull.rest)
        lull.said()

    assert clock.now + lull.rest <= begun + LONGEST + 1e-6


async def test_it_is_waited_for() -> None:
    lull = Lull(pause=0.01, longest=1.0)
    lull.said()

    with anyio.fail_after(20):
        await lull.come()

    assert lull.rest == 0.0
