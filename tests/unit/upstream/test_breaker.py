from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from discovery_engine.upstream.history import Breaker, RetryLater
from tests.factories import Clock
from tests.rows import rows


def breaker(clock: Clock, *, chance: float = 0.0) -> Breaker:
    return Breaker(clock=clock, random=lambda: chance)


def may_try(tested: Breaker) -> bool:
    try:
        with tested.attempt():
            return True
    except RetryLater:
        return False


def pauses(count: int, *, chance: float) -> list[float]:
    tested, found = breaker(Clock(), chance=chance), []
    for _ in range(count):
        tested.record_failure(exited=False)
        found.append(tested.wait)
    return found


def test_the_first_failure_delays_nothing_and_each_later_one_doubles_the_pause() -> None:
    assert pauses(10, chance=0) == [0, 1, 2, 4, 8, 16, 32, 48, 48, 48]


def test_an_open_breaker_lets_one_caller_try_at_a_time() -> None:
    clock = Clock()
    tested = breaker(clock)
    for _ in range(5):
        tested.record_failure(exited=False)
    early = may_try(tested)
    clock.now += tested.wait

    with tested.attempt():
        others = [may_try(tested) for _ in range(3)]

    assert (early, others, may_try(tested)) == (False, [False] * 3, True)


@rows(("gap", "is_looping"), [(29.0, True), (31.0, False)])
def test_five_exits_within_two_minutes_are_a_crash_loop(gap: float, is_looping: bool) -> None:
    clock = Clock()
    tested = breaker(clock)

    for _ in range(5):
        clock.now += gap
        tested.record_failure(exited=True)
        looping = tested.is_crash_looping
        tested.record_success()

    assert looping == is_looping


@given(st.floats(min_value=0, max_value=0.999))
def test_a_program_that_always_dies_is_started_at_most_ten_times_in_ten_minutes(
    chance: float,
) -> None:
    clock = Clock()
    tested = breaker(clock, chance=chance)
    starts = 0

    while clock.now < 1600:
        if may_try(tested):
            starts += 1
            tested.record_failure(exited=True)
        clock.now += 0.1

    assert 5 <= starts <= 10


class BreakerLife(RuleBasedStateMachine):
    """Whatever happens: no wait beyond its bound, and never two probes at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.tested = Breaker(clock=self.clock, random=lambda: 0.5)
        self.probes: list = []

    @rule(seconds=st.floats(min_value=0, max_value=200))
    def time_goes_by(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(exited=st.booleans())
    def it_fails(self, exited: bool) -> None:
        self.tested.record_failure(exited=exited)

    @rule()
    def it_answers(self) -> None:
        self.tested.record_success()
        assert self.tested.wait == 0

    @rule()
    def somebody_insists(self) -> None:
        self.tested.reset_backoff()
        assert self.tested.wait == 0

    @precondition(lambda self: self.tested.is_open)
    @rule()
    def somebody_probes(self) -> None:
        probe = self.tested.attempt()
        try:
            probe.__enter__()
        except RetryLater:
            assert self.probes or self.tested.wait
        else:
            assert not self.probes
            assert not self.tested.wait
            self.probes.append(probe)

    @precondition(lambda self: self.probes)
    @rule()
    def a_probe_ends(self) -> None:
        self.probes.pop().__exit__(None, None, None)

    @invariant()
    def the_wait_is_bounded(self) -> None:
        assert 0 <= self.tested.wait <= (150 if self.tested.is_crash_looping else 60)


TestBreakerLife = BreakerLife.TestCase
