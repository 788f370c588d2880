"""When somebody who says the same again and again is heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.engine.maintenance import Debouncer

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
