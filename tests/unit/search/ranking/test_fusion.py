from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discovery_engine.search.ranking.fusion import Fusion

SHARE = st.floats(0, 1)
STEP = 1e-6  # less is lost in rounding


@st.composite
def fusions(draw: st.DrawFn) -> Fusion:
    best = draw(st.floats(-1, 1))
    return Fusion(draw(SHARE), best, draw(st.floats(-1, best)))


@pytest.mark.requirement("EMB-20")
@given(fusions(), SHARE, st.none() | st.floats(0, 2))
def test_both_parts_are_in_bounds_and_so_is_their_sum(
    fusion: Fusion, words: float, below: float | None
) -> None:
    likeness = None if below is None else max(-1.0, fusion.best_likeness - below)

    by_words, by_meaning = fusion(words, likeness)

    assert by_words >= 0
    assert by_meaning >= 0
    assert by_words + by_meaning <= 1


@pytest.mark.requirement("EMB-20")
@given(fusions(), SHARE, SHARE, st.none() | st.floats(0, 2))
def test_the_score_rises_with_words(
    fusion: Fusion, one: float, other: float, below: float | None
) -> None:
    assume(other - one > STEP)
    likeness = None if below is None else fusion.best_likeness - below

    assert sum(fusion(one, likeness)) < sum(fusion(other, likeness))


@pytest.mark.requirement("EMB-20")
@given(fusions(), SHARE, st.floats(0, 1), st.floats(0, 1))
def test_the_score_rises_with_likeness(
    fusion: Fusion, words: float, one: float, other: float
) -> None:
    assume(other - one > STEP)
    nearer, farther = fusion.best_likeness - one, fusion.best_likeness - other

    assert sum(fusion(words, farther)) < sum(fusion(words, nearer))


def test_the_best_by_words_loses_nothing_where_it_has_no_vector() -> None:
    fusion = Fusion(0.4, best_likeness=0.6, usual_likeness=0.1)

    assert sum(fusion(0.4, None)) == sum(fusion(0.4, 0.6))


@pytest.mark.parametrize("shift", [0.0, 0.2, -0.1])
def test_a_model_whose_cosines_are_all_higher_is_treated_alike(shift: float) -> None:
    plain = Fusion(0.3, 0.6, 0.1)
    shifted = Fusion(0.3, 0.6 + shift, 0.1 + shift)

    assert shifted(0.2, 0.4 + shift) == pytest.approx(plain(0.2, 0.4))
