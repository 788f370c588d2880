from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from discovery_engine.search.typos import slips_of


@pytest.mark.parametrize("meant", ["word", "worda", "wor", "wrod", "wird"])
def test_any_one_slip_is_reached(meant: str) -> None:
    assert (meant in slips_of("word")) == (meant != "word")


@given(st.text(alphabet="abcd", min_size=1, max_size=6))
def test_all_are_one_slip_away(word: str) -> None:
    assert {OSA.distance(word, other) for other in slips_of(word)} == {1}
