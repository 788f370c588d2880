from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.usage import RecentFinds, UseCount, usage_shares
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.rows import rows

DAY = 86_400.0


def key(name: str) -> ToolKey:
    return ToolKey(ServerName("one"), ToolName(name))


def test_a_use_counts_half_after_thirty_days() -> None:
    use = UseCount(2, at=0)

    assert use.decayed(30 * DAY) == pytest.approx(1)
    assert use.incremented(30 * DAY) == UseCount(pytest.approx(2), 30 * DAY)


@given(st.floats(0, 1e6), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_share_is_below_one_and_never_rises_by_itself(count, earlier, later) -> None:
    uses = {key("a"): UseCount(count, 0)}
    before, after = min(earlier, later), max(earlier, later)

    [now], [then] = usage_shares(uses, before).values(), usage_shares(uses, after).values()

    assert 0 <= then <= now < 1


@rows(("after", "counts"), [(600, True), (601, False)])
def test_a_find_is_forgotten_after_ten_minutes(after: float, counts: bool) -> None:
    finds = RecentFinds()
    finds.add([key("a")], now=0)

    assert finds.consume(key("a"), now=after) is counts


def test_only_so_many_finds_are_remembered() -> None:
    finds = RecentFinds()
    finds.add((key(str(n)) for n in range(1_001)), now=0)

    assert not finds.consume(key("0"), now=1)
    assert finds.consume(key("1000"), now=1)
