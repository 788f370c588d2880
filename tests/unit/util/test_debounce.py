"""When somebody who says the same again and again is heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.engine.maintenance import Debouncer
from tests.factories import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("WAT-20")]

PAUSE, LONGEST = 0.5, 10.0


def make(clock: Clock) -> Debouncer:
    return Debouncer(pause=PAUSE, longest=LONGEST, clock=clock)


def test_it_comes_half_a_second_after_the_last_word() -> None:
    clock = Clock(100.0)
    debouncer = make(clock)

    debouncer.trigger()
    clock.now += 0.4
    debouncer.trigger()

    assert debouncer.remaining == PAUSE


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=50))
def test_nobody_waits_for_longer_than_the_longest(gaps: list[float]) -> None:
    clock = Clock(100.0)
    debouncer = make(clock)
    debouncer.trigger()
    begun = clock.now
    for gap in gaps:
        if debouncer.remaining == 0.0:
            break
        clock.now += min(gap, debouncer.remaining)
        debouncer.trigger()

    assert clock.now + debouncer.remaining <= begun + LONGEST + 1e-6
