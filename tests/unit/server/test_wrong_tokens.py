"""The rate limit on wrong tokens, over time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from discovery_server.http.users import AT_ONCE, INTERVAL, MOST_ADDRESSES, WrongTokens
from tests.factories import Clock


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 20)), max_size=80))
def test_no_sequence_of_tries_gets_more_than_its_share(tries: list[tuple[int, float]]) -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    looked_at: Counter[str] = Counter()
    for number, pause in tries:
        clock.now += pause
        if not wrong.wait(address := f"a{number}"):
            wrong.record(address)
            looked_at[address] += 1

    share = AT_ONCE + (clock.now - Clock.now) / INTERVAL
    assert all(count <= share + 1e-6 for count in looked_at.values())
    assert len(wrong) <= 4


def test_the_addresses_that_are_remembered_have_a_limit() -> None:
    wrong = WrongTokens(Clock())
    for number in range(5 * MOST_ADDRESSES):
        wrong.record(f"address {number}")

    assert len(wrong) == MOST_ADDRESSES
