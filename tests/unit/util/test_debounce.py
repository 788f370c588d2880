"""When somebody who says the same again and again is heard."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.debounce import Debouncer

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("WAT-20")]

PAUSE, LONGEST = 0.5, 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock) -> Debouncer:
    return Debouncer(pause=PAUSE, longest=LONGEST, clock=clock)


def test_it_comes_half_a_second_after_the_last_word() -> None:
    clock = Clock()
    debouncer = make(clock)

    debouncer.trigger()
    clock.now += 0.4
    debouncer.trigger()

    assert debouncer.remaining == PAUSE


def test_one_who_never_stops_is_heard_all_the_same() -> None:
    clock = Clock()
    debouncer = make(clock)
    debouncer.trigger()
    for _ in range(33):
        clock.now += 0.3
        debouncer.trigger()

    assert debouncer.remaining == pytest.approx(LONGEST - 33 * 0.3)


def test_one_who_says_it_again_soon_is_heard_less_often() -> None:
    clock = Clock()
    debouncer = make(clock)
    rests = []
    for _ in range(7):
        debouncer.trigger()
        rests.append(debouncer.remaining)
        clock.now += debouncer.remaining
        debouncer.reset()

    assert rests == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_one_who_was_quiet_for_long_is_heard_as_at_first() -> None:
    clock = Clock()
    debouncer = make(clock)
    for _ in range(5):
        debouncer.trigger()
        debouncer.reset()
    clock.now += LONGEST

    debouncer.trigger()

    assert debouncer.remaining == PAUSE


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=50))
def test_nobody_waits_for_longer_than_the_longest(gaps: list[float]) -> None:
    clock = Clock()
    debouncer = make(clock)
    debouncer.trigger()
    begun = clock.now
    for gap in gaps:
        if debouncer.remaining == 0.0:
            break
        clock.now += min(gap, debouncer.remaining)
        debouncer.trigger()

    assert clock.now + debouncer.remaining <= begun + LONGEST + 1e-6


async def test_it_is_waited_for() -> None:
    debouncer = Debouncer(pause=0.01, longest=1.0)
    debouncer.trigger()

    with anyio.fail_after(60):
        await debouncer.wait()

    assert debouncer.remaining == 0.0
