from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.text import one_line
from discovery_engine.agent.budget import (
    Budget,
    Item,
    Variant,
    plan,
    shares,
)
from tests.rows import rows


def item(*variants: tuple[str, float], weight: float = 1.0) -> Item:
    return Item(weight, tuple(Variant(text, value) for text, value in variants))


LINES = st.text(min_size=1, max_size=30).map(one_line).filter(bool)  # none ends in a blank
ITEMS = st.lists(
    st.builds(
        lambda weight, texts: item(
            *((text, (at + 1) / len(texts)) for at, text in enumerate(sorted(texts, key=len))),
            weight=weight,
        ),
        st.floats(min_value=0, max_value=1),
        st.lists(LINES, min_size=1, max_size=4),
    ),
    max_size=8,
)


@pytest.mark.requirement("BUD-1")
@given(ITEMS, st.integers(min_value=-5, max_value=80), st.sampled_from([len, None]))
def test_plan_keeps_to_its_budget(items: list[Item], tokens: int, count: type[len] | None) -> None:
    budget = Budget(tokens, count=count) if count else Budget(tokens)

    made = plan(items, budget)

    assert not made.lines or budget.fits("\n".join(made.lines))


@pytest.mark.requirement("BUD-1")
@given(st.lists(LINES))
def test_lines_together_are_estimated_at_no_more_than_their_prices(lines: list[str]) -> None:
    budget = Budget(0)

    assert budget.count("\n".join(lines)) <= sum(map(budget.price, lines))


@rows(
    ("total", "needs", "parts"),
    [
        pytest.param(30, [5, 5], [5, 5], id="enough"),
        pytest.param(30, [50, 50, 50], [10, 10, 10], id="equal parts"),
        pytest.param(30, [4, 90, 90], [4, 13, 13], id="the modest leave theirs to the others"),
        pytest.param(30, [90, 4, 90], [13, 4, 13], id="in whatever order they ask"),
        pytest.param(-3, [5], [-3], id="debts"),
        pytest.param(30, [], [], id="nobody"),
    ],
)
def test_shares_are_fair(total: int, needs: list[int], parts: list[int]) -> None:
    assert shares(total, needs) == parts


@pytest.mark.requirement("BUD-5")
@given(st.integers(min_value=0, max_value=99), st.lists(st.integers(min_value=0, max_value=50)))
def test_shares_are_never_more_than_there_is(total: int, needs: list[int]) -> None:
    assert sum(shares(total, needs)) <= total
