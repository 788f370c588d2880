"""Nothing that a stranger wrote can pass for a line of ours, whoever reads it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forgeries import (
    BREAKS,
    FAKES,
    HIDING,
    agents_read,
    errors_of,
    errors_read,
    forged,
    people_read,
    told_by_a_stranger,
)

PLANTS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(("", "x", "mode", "x.")),
    st.sampled_from(BREAKS),
    st.sampled_from(HIDING),
    st.sampled_from(FAKES),
    st.sampled_from(("", "\n", "\u2028y", " it.")),
) | st.builds("{}{}".format, st.sampled_from(HIDING), st.sampled_from(FAKES))


@pytest.mark.thorough
@pytest.mark.requirement("THR-6")
@pytest.mark.requirement("MET-14")
@settings(deadline=None, max_examples=25)
@given(plant=PLANTS, failing=st.booleans())
def test_no_line_for_agents_is_forged(plant: str, *, failing: bool) -> None:
    view = told_by_a_stranger(plant, failing=failing)

    found = [line for text in agents_read(view, plant) for line in forged(text, plant)]

    assert found == []


@pytest.mark.requirement("THR-6")
@settings(deadline=None, max_examples=10)
@given(plant=PLANTS, failing=st.booleans())
def test_no_line_for_people_is_forged(plant: str, *, failing: bool) -> None:
    view = told_by_a_stranger(plant, failing=failing)

    found = [line for text in people_read(view, plant) for line in forged(text, plant)]

    assert found == []


@pytest.mark.thorough
@pytest.mark.requirement("THR-6")
@settings(deadline=None, max_examples=25)
@given(plant=PLANTS)
def test_no_error_has_a_forged_line(plant: str) -> None:
    for error in errors_of(plant):
        found = [line for text in errors_read(error) for line in forged(text, plant)]

        assert found == [], error.code
