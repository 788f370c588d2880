"""What counts as a change of a tool's meaning, and what follows from it."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust.decisions import AcceptedTools
from discovery_engine.trust.tool_acceptance import (
    accept,
    meaning,
    withheld,
)
from tests.rows import rows
from tests.unit.trust.mutations import MUTATIONS, TOOL, moved

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def tool(definition: JSONObject = TOOL) -> Tool:
    return Tool.from_mcp(ServerName("s"), definition)


def accepted(definition: JSONObject = TOOL) -> AcceptedTools:
    one = accept("s", tool(definition))
    return {one.tool: frozenset({one.meaning, one.fingerprint})}


@pytest.mark.requirement("TRU-10")
@given(seed=st.integers())
def test_no_mere_order_is_a_change(seed: int) -> None:
    again = moved(random.Random(seed))

    assert again == json.loads(json.dumps(again))
    assert withheld(tool(again), "on_first_use", accepted()) is None


@pytest.mark.requirement("TRU-10")
@given(seed=st.integers(), mutation=st.sampled_from(sorted(MUTATIONS)))
def test_a_change_is_caught_in_whatever_order_it_comes(seed: int, mutation: str) -> None:
    again = moved(random.Random(seed), MUTATIONS[mutation])

    assert withheld(tool(again), "on_first_use", accepted()) == "changed"


@pytest.mark.requirement("TRU-10")
@rows(
    ("one", "other"),
    [
        pytest.param('{"maximum": 1}', '{"maximum": 1.0}', id="1 and 1.0"),
        pytest.param('{"title": "a"}', '{"title": "\\u0061"}', id="an escaped letter"),
        pytest.param('{"maximum": 0}', '{"maximum": -0.0}', id="0 and -0.0"),
        pytest.param('{"const": {"a": [1]}}', '{"const": {"a": [1.0]}}', id="1 and 1.0 in data"),
        pytest.param(
            '{"anyOf": [{"required": ["a", "b"]}]}',
            '{"anyOf": [{"required": ["b", "a"]}]}',
            id="order within an alternative",
        ),
        pytest.param(
            '{"properties": {"default": {"required": ["a", "b"]}}}',
            '{"properties": {"default": {"required": ["b", "a"]}}}',
            id="order within a property that is called like a keyword",
        ),
    ],
)
def test_two_spellings_of_one_value_mean_the_same(one: str, other: str) -> None:
    meanings = {meaning({"inputSchema": json.loads(text)}) for text in (one, other)}

    assert len(meanings) == 1


@pytest.mark.requirement("TRU-10")
@rows(
    ("one", "other"),
    [
        pytest.param({"a": "ab", "b": "c"}, {"a": "a", "b": "bc"}, id="joined texts"),
        pytest.param({"a": 1}, {"a": True}, id="1 and true"),
        pytest.param({"a": "1"}, {"a": 1}, id="text and number"),
        pytest.param({"a": "\u00e9"}, {"a": "e\u0301"}, id="composed and decomposed"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, id="order of data"),
        pytest.param({"a": None}, {}, id="null and nothing"),
        pytest.param(
            {"inputSchema": {"prefixItems": [{}, {"type": "string"}]}},
            {"inputSchema": {"prefixItems": [{"type": "string"}, {}]}},
            id="order of positions",
        ),
        pytest.param(
            {"inputSchema": {"default": {"required": ["a", "b"]}}},
            {"inputSchema": {"default": {"required": ["b", "a"]}}},
            id="order in a value that is called like a keyword",
        ),
        pytest.param({"a": "\ud800"}, {"a": "\\ud800"}, id="a surrogate and its escape"),
    ],
)
def test_two_values_that_look_alike_are_two(one: JSONObject, other: JSONObject) -> None:
    assert meaning(one) != meaning(other)


@pytest.mark.requirement("TRU-10")
@given(one=JSON, other=JSON)
def test_data_means_the_same_if_and_only_if_it_is_the_same(one: object, other: object) -> None:
    is_same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (meaning({"x": one}) == meaning({"x": other})) is is_same
