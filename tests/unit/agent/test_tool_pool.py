from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.agent.tool_pool import PoolRules, ToolPool
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.factories import Clock


def key(tool: str) -> ToolKey:
    return ToolKey(ServerName("s"), ToolName(tool))


def found(**scores: float) -> list[tuple[ToolKey, float]]:
    return [(key(tool), score) for tool, score in scores.items()]


def keys(tools: str) -> tuple[ToolKey, ...]:
    return tuple(map(key, tools))


@pytest.mark.requirement("MOD-31")
def test_weight_is_seven_tenths_score_and_three_tenths_freshness() -> None:
    clock = Clock(0.0)
    pool = ToolPool(clock=clock)
    pool.register(found(old=0.9), PoolRules(limit=2))
    clock.now = 900.0
    # old weighs 0.63 + 0.15 = 0.78
    pool.register(found(new=0.68), PoolRules(limit=2))  # 0.476 + 0.3 = 0.776

    assert pool.register(found(x=0.5), PoolRules(limit=2)).evicted == (key("new"),)


@pytest.mark.requirement("MOD-31")
@given(
    searches=st.lists(
        st.tuples(
            st.floats(0, 4000),
            st.lists(
                st.tuples(st.sampled_from(keys("abcdefgh")), st.floats(0, 1)),
                unique_by=lambda hit: hit[0],
            ),
            st.integers(0, 6),
        ),
        max_size=20,
    )
)
def test_pool_never_exceeds_its_room_and_has_what_was_found_last(
    searches: list[tuple[float, list[tuple[ToolKey, float]], int]],
) -> None:
    clock = Clock(0.0)
    pool = ToolPool(clock=clock)
    for pause, hits, room in searches:
        clock.now += pause
        before = set(pool)

        change = pool.register(hits, PoolRules(limit=6), room=room)

        assert len(pool) <= room
        assert {one for one, _ in hits[:room]} <= set(pool)
        assert set(pool) == (before | set(change.registered)) - set(change.evicted)
        assert not before & set(change.registered)
        assert set(change.evicted) <= before
