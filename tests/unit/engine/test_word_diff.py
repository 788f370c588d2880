"""The words that two texts differ in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.engine.json_forms.owner_forms import word_diff


@given(st.text("ab .", max_size=30), st.text("ab .", max_size=30))
def test_the_parts_of_a_word_diff_make_up_both_texts(before: str, after: str) -> None:
    parts = word_diff(before, after)

    assert "".join(part.text for part in parts if part.kind != "added") == before
    assert "".join(part.text for part in parts if part.kind != "removed") == after
    assert all(part.text for part in parts)
