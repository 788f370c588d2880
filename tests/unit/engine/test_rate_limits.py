"""Calls in a minute are counted exactly, with a clock of the test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import Limits, Settings
from discovery_engine.engine.upstreams import CallQuota, RateLimits
from discovery_engine.errors import RateLimitedError
from tests.factories import Clock, make_server

pytestmark = pytest.mark.requirement("UPS-90")


def takes(rates: RateLimits, *quotas: CallQuota) -> bool:
    try:
        rates.take(*quotas)
    except RateLimitedError:
        return False
    return True


@given(
    st.integers(1, 600),
    st.integers(1, 50),
    st.lists(st.floats(0, 100), min_size=1, max_size=60),
)
def test_in_no_span_of_time_more_calls_pass_than_the_rate_and_one_burst(
    per_minute: int, burst: int, pauses: list[float]
) -> None:
    clock = Clock(0.0)
    rates, quota = RateLimits(clock), CallQuota("x", per_minute, burst)
    passed: list[float] = []
    for pause in pauses:
        clock.now += pause
        passed += [clock.now for _ in range(burst + 1) if takes(rates, quota)]

    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            span = passed[last] - start
            assert last - first + 1 <= burst + span * per_minute / 60 + 1e-6


@given(st.integers(1, 600), st.integers(1, 50))
def test_after_the_given_time_a_call_is_possible(per_minute: int, burst: int) -> None:
    clock = Clock(0.0)
    rates, quota = RateLimits(clock), CallQuota("x", per_minute, burst)
    for _ in range(burst):
        rates.take(quota)

    with pytest.raises(RateLimitedError) as refused:
        rates.take(quota)
    clock.now += refused.value.retry_after

    rates.take(quota)


def test_a_call_takes_from_every_bucket_or_from_none() -> None:
    rates = RateLimits(Clock(0.0))
    server, view = CallQuota("server", 60, 5), CallQuota("view", 60, 1)

    assert takes(rates, server, view)
    assert not takes(rates, server, view)
    assert [takes(rates, server) for _ in range(5)] == [True] * 4 + [False]


def test_the_usual_burst_is_what_ten_seconds_allow() -> None:
    usual, slow = (make_server("a", limits=Limits(calls_per_minute=n)) for n in (60, 3))

    assert CallQuota.all_of(usual, Settings()) == (CallQuota("server 'a'", 60, 10, "a"),)
    assert CallQuota.all_of(slow, Settings())[0].burst == 1
