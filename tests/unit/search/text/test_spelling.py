from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jellyfish import damerau_levenshtein_distance

from discovery_engine.search.text.tokenizer import max_edits, single_edits
from tests.rows import rows


@pytest.mark.requirement("REL-12")
@rows(("length", "most"), [(3, 0), (4, 1), (9, 1), (10, 2), (40, 2)])
def test_longer_names_may_have_more_slips(length: int, most: int) -> None:
    assert max_edits(length) == most


@rows("meant", ["word", "worda", "wor", "wrod", "wird"])
def test_any_one_slip_is_reached(meant: str) -> None:
    assert (meant in single_edits("word")) == (meant != "word")


@given(st.text(alphabet="abcd", min_size=1, max_size=6))
def test_all_are_one_slip_away(word: str) -> None:
    assert {damerau_levenshtein_distance(word, other) for other in single_edits(word)} == {1}
