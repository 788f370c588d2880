"""What is copied of arguments and results, and how long they are said to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.store.call_log.excerpt import Excerpt, size_of

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NAMES = st.text(max_size=200) | st.sampled_from(["password", "key", "tokens"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5)
)


@pytest.mark.thorough
@given(values=st.lists(VALUES, min_size=1, max_size=3), masks=st.booleans())
def test_a_size_is_that_of_the_whole_value_however_much_of_it_is_copied(
    values: list[Any], masks: bool
) -> None:
    excerpt = Excerpt(60, masks=masks)

    for value in values:
        assert excerpt.copy(value)[1] == size_of(value)


@pytest.mark.thorough
@given(value=VALUES)
def test_what_is_short_is_copied_whole(value: Any) -> None:
    copied, _ = Excerpt(1 << 30, masks=False).copy(value)

    assert shortened(copied) == shortened(value)


def shortened(value: Any) -> Any:
    """The same with names as they are cut, and with long numbers as texts."""
    if isinstance(value, dict):
        return {
            name if len(name) <= 100 else f"{name[:100]}…": shortened(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [shortened(one) for one in value]
    is_long = type(value) is int and not -(1 << 63) <= value < 1 << 63
    return str(value) if is_long else value
