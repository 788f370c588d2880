from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.upstream.listing import (
    Pages,
    depth_of,
    fault_of,
    read_pages,
)
from tests.rows import rows

pytestmark = pytest.mark.anyio


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


@given(st.integers(min_value=0, max_value=40))
def test_depth_is_counted_up_to_the_limit(depth: int) -> None:
    assert depth_of(nested(depth), limit=32) == min(depth, 33)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["name", "inputSchema", "type", "properties", "description"]), inner
        ),
    )
)  # fmt: skip
def test_any_definition_is_judged_without_an_error(definition: Any) -> None:
    assert isinstance(fault_of(definition), str | None)


@rows(
    ("ttl_ms", "ttl"),
    [
        (1500, 1.5),
        (0, 0.0),
        (-5, 0.0),
        pytest.param(10**400, 1e9, id="huge"),
        pytest.param(-(10**400), 0.0, id="-huge"),
        (True, None),
        ("1", None),
        (None, None),
    ],
)
async def test_only_a_number_is_a_ttl(ttl_ms: object, ttl: float | None) -> None:
    async def ask(params: JSONObject, timeout: object) -> JSONObject:  # noqa: ASYNC109
        return {"tools": [], "ttlMs": ttl_ms}

    assert await read_pages(ask, seconds=20) == Pages((), ttl)
