from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discovery_engine.search.ranking.relevance import Fusion
from tests.rows import rows

SHARE = st.floats(0, 1)
STEP = 1e-6  # less is lost in rounding


@st.composite
def fusions(draw: st.DrawFn) -> Fusion:
    best = draw(st.floats(-1, 1))
    return Fusion(draw(SHARE), best, draw(st.floats(-1, best)), draw(st.booleans()))


@pytest.mark.requirement("EMB-10")
@given(fusions(), SHARE, st.none() | st.floats(0, 2))
def test_both_parts_are_in_bounds_and_so_is_their_sum(
    fusion: Fusion, words: float, below: float | None
) -> None:
    similarity = None if below is None else max(-1.0, fusion.best_similarity - below)

    by_words, by_meaning = fusion.fuse(words, similarity)

    assert by_words >= 0
    assert by_meaning >= 0
    assert by_words + by_meaning <= 1


@pytest.mark.requirement("EMB-10")
@given(fusions(), SHARE, SHARE, st.none() | st.floats(0, 2))
def test_the_score_rises_with_words(
    fusion: Fusion, one: float, other: float, below: float | None
) -> None:
    assume(other - one > STEP)
    similarity = None if below is None else fusion.best_similarity - below

    assert sum(fusion.fuse(one, similarity)) < sum(fusion.fuse(other, similarity))


@pytest.mark.requirement("EMB-10")
@given(fusions(), SHARE, st.floats(0, 1), st.floats(0, 1))
def test_the_score_rises_with_similarity(
    fusion: Fusion, words: float, one: float, other: float
) -> None:
    assume(other - one > STEP)
    nearer, farther = fusion.best_similarity - one, fusion.best_similarity - other

    assert sum(fusion.fuse(words, farther)) < sum(fusion.fuse(words, nearer))


@rows("shift", [0.0, 0.2, -0.1])
def test_a_model_whose_cosines_are_all_higher_is_treated_alike(shift: float) -> None:
    plain = Fusion(0.3, 0.6, 0.1)
    shifted = Fusion(0.3, 0.6 + shift, 0.1 + shift)

    assert shifted.fuse(0.2, 0.4 + shift) == pytest.approx(plain.fuse(0.2, 0.4))


@pytest.mark.requirement("EMB-40")
def test_word_vectors_weigh_less_than_those_of_a_sentence_model() -> None:
    by_model = Fusion(0.4, best_similarity=0.6, mean_similarity=0.1).fuse(0.2, 0.5)
    by_words = Fusion(0.4, 0.6, 0.1, is_static=True).fuse(0.2, 0.5)

    assert by_words.meaning < by_model.meaning
    assert by_words.words > by_model.words
