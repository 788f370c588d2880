"""A tool that does what is asked for rises, and one that does something else falls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.operation import ToolProfile
from discovery_engine.search.operations.request_reading import read_request
from discovery_engine.search.ranking.relevance import Agreement, default_weights
from discovery_engine.search.text.lexicon import default_lexicon

PROFILES = st.integers(0, 2**30 - 1)
SCORES = st.floats(0.001, 0.999)


def agreement(text: str) -> Agreement:
    lexicon = default_lexicon()
    reading = read_request(text, lexicon, lexicon.detect_language(text))
    return Agreement(reading, default_weights())


@given(SCORES, SCORES, PROFILES)
def test_a_score_stays_between_0_and_1_and_the_order_by_words_is_kept(
    one: float, other: float, profile: int
) -> None:
    moved = agreement("delete the issues in acme/shop")
    low, high = sorted((moved.adjusted(one, profile), moved.adjusted(other, profile)))

    assert 0 < low <= high < 1
    if one < other:
        assert moved.adjusted(one, profile) <= moved.adjusted(other, profile)


@given(SCORES, PROFILES)
def test_the_shares_of_the_traits_add_up(score: float, profile: int) -> None:
    moved = agreement("list issues since 2024-05-01")

    whole = sum(share.adds for share in moved.shares(score, profile))

    assert score + whole == pytest.approx(moved.adjusted(score, profile))


@given(SCORES, PROFILES)
def test_shipped_requests_never_help_a_tool_as_it_is_compared_with_one_without(
    score: float, profile: int
) -> None:
    plain = ToolProfile.unpacked(profile)._replace(has_shipped_examples=False)
    shipped = plain._replace(has_shipped_examples=True)
    rising = agreement("list the open issues")

    assert rising.adjusted(score, shipped.packed()) < rising.adjusted(score, plain.packed())
