from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.report import (
    DEPTH,
    mean,
    ndcg,
    percentile,
    recall,
    reciprocal_rank,
)
from tests.rows import rows

RIGHT = st.integers(1, 5)
RANKS = st.sets(st.integers(1, DEPTH), max_size=5).map(sorted).map(tuple)


@rows(
    ("ranks", "right", "depth", "expected"),
    [
        pytest.param((1,), 1, 1, 1.0, id="the only one is first"),
        pytest.param((2,), 1, 1, 0.0, id="below the depth"),
        pytest.param((1, 3), 2, 1, 0.5, id="one of two"),
        pytest.param((1, 3), 2, 5, 1.0, id="both"),
        pytest.param((4,), 4, 5, 0.25, id="one of four"),
        pytest.param((), 2, 10, 0.0, id="none found"),
    ],
)
def test_recall_is_the_share_of_the_right_tools(
    ranks: tuple[int, ...], right: int, depth: int, expected: float
) -> None:
    assert recall(ranks, right, depth) == expected


@rows(
    ("ranks", "expected"),
    [
        pytest.param((1,), 1.0, id="first"),
        pytest.param((4, 2), 0.5, id="the best of two"),
        pytest.param((10,), 0.1, id="last that counts"),
        pytest.param((), 0.0, id="not found"),
    ],
)
def test_reciprocal_rank_is_that_of_the_first_right_tool(
    ranks: tuple[int, ...], expected: float
) -> None:
    assert reciprocal_rank(ranks) == expected


@rows(
    ("ranks", "right", "expected"),
    [
        pytest.param((1,), 1, 1.0, id="perfect"),
        pytest.param((1, 2, 3), 3, 1.0, id="perfect with three"),
        pytest.param((2,), 1, 0.63093, id="1 / log2(3)"),
        pytest.param((3,), 1, 0.5, id="1 / log2(4)"),
        pytest.param((1, 3), 2, 0.91972, id="1.5 of 1.63093"),
        pytest.param((2, 4), 3, 0.49819, id="1.06161 of 2.13093"),
        pytest.param((), 1, 0.0, id="nothing found"),
        pytest.param(tuple(range(1, 11)), 12, 1.0, id="more right ones than there are ranks"),
    ],
)
def test_ndcg_is_what_a_calculation_by_hand_gives(
    ranks: tuple[int, ...], right: int, expected: float
) -> None:
    assert ndcg(ranks, right) == pytest.approx(expected, abs=1e-5)


@rows(
    ("share", "expected"),
    [
        pytest.param(0.5, 20, id="median of four"),
        pytest.param(0.95, 40, id="nearly all"),
        pytest.param(0.0, 10, id="least"),
        pytest.param(1.0, 40, id="most"),
        pytest.param(0.25, 10, id="a quarter"),
    ],
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([40, 10, 30, 20], share) == expected


@pytest.mark.requirement("EVA-10")
@given(RANKS, RIGHT, st.integers(1, DEPTH))
def test_every_measure_is_a_share(ranks: tuple[int, ...], right: int, depth: int) -> None:
    ranks = ranks[:right]

    for value in (recall(ranks, right, depth), reciprocal_rank(ranks), ndcg(ranks, right)):
        assert 0 <= value <= 1


@pytest.mark.requirement("EVA-10")
@given(RANKS.filter(bool), st.integers(1, DEPTH), st.data())
def test_moving_a_right_tool_up_lowers_no_measure(
    ranks: tuple[int, ...], depth: int, data: st.DataObject
) -> None:
    moved = data.draw(st.sampled_from(ranks))
    free = [rank for rank in range(1, moved + 1) if rank not in ranks or rank == moved]
    higher = data.draw(st.sampled_from(free))
    better = tuple(sorted({*ranks, higher} - ({moved} - {higher})))

    assert recall(better, len(ranks), depth) >= recall(ranks, len(ranks), depth)
    assert reciprocal_rank(better) >= reciprocal_rank(ranks)
    assert ndcg(better, len(ranks)) >= ndcg(ranks, len(ranks))


@given(st.lists(st.floats(0, 1), min_size=1))
def test_mean_and_percentile_are_between_the_least_and_the_most(values: list[float]) -> None:
    for value in (mean(values), percentile(values, 0.5), percentile(values, 0.95)):
        assert value is not None
        assert min(values) - 1e-12 <= value <= max(values) + 1e-12
        assert not math.isnan(value)
