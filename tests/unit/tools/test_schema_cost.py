"""What a check can cost is known of a schema before any value is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.tools.schema_cost import (
    UNBOUNDED,
    size_of,
    too_costly,
    too_costly_tool,
    weight_of,
)
from discovery_engine.tools.schema_graph import SchemaGraph
from tests.factories import chain, make_definition
from tests.rows import rows

NODE: JSONObject = {"$ref": "#/$defs/node"}
OBJECT: JSONObject = {"type": "object"}


def refers(node: JSONObject) -> JSONObject:
    return {**OBJECT, "properties": {"a": NODE}, "$defs": {"node": node}}


LINEAR = {
    "a list of its own": {"properties": {"children": {"items": NODE}}},
    "two names": {"properties": {"left": NODE, "right": NODE}},
    "filters": {
        "anyOf": [
            {"properties": {"and": {"items": NODE}}},
            {"properties": {"or": {"items": NODE}}},
            {"properties": {"not": NODE, "field": {"type": "string"}}},
        ]
    },
    "any JSON": {
        "anyOf": [
            {"type": "object", "additionalProperties": NODE},
            {"type": "array", "items": NODE},
            {"type": ["string", "number", "boolean", "null"]},
        ]
    },
}
DOUBLING = {
    "one name in two branches": {
        "anyOf": [
            {"properties": {"left": NODE}, "required": ["a"]},
            {"properties": {"left": NODE}, "required": ["b"]},
        ]
    },
    "a name and a pattern": {"properties": {"left": NODE}, "patternProperties": {"^l": NODE}},
    "an element twice": {"items": NODE, "contains": NODE},
    "a condition": {"if": {"items": NODE}, "else": {"items": NODE}},
    "a circle beside a circle": {
        "properties": {"x": NODE},
        "allOf": [{"properties": {"x": {"$ref": "#/$defs/node/allOf/0"}}}],
    },
    "the same value again": {"allOf": [NODE]},
}


@pytest.mark.requirement("THR-10")
@rows("node", LINEAR)
def test_a_schema_that_goes_down_one_way_has_a_weight(node: str) -> None:
    schema = refers(LINEAR[node])

    assert weight_of(SchemaGraph(schema)) < 60
    assert too_costly(schema) is None


@pytest.mark.requirement("THR-10")
@rows("node", DOUBLING)
def test_one_that_goes_down_two_ways_at_once_has_none(node: str) -> None:
    assert weight_of(SchemaGraph(refers(DOUBLING[node]))) is UNBOUNDED


@pytest.mark.requirement("THR-10")
@rows("keyword", ["allOf", "anyOf", "oneOf"])
@rows("links", [12, 40, 500])
def test_a_chain_that_doubles_is_a_finding_and_found_soon(keyword: str, links: int) -> None:
    assert "more than 2,000 ways" in (too_costly(chain(keyword, links)) or "")


@pytest.mark.requirement("THR-10")
def test_members_that_depend_on_each_other_in_a_circle_are_a_finding() -> None:
    node = {"properties": {"a": NODE}, "unevaluatedProperties": False}

    assert too_costly(refers(node)) is None
    assert "unevaluated" in (too_costly(refers({"allOf": [node, node]})) or "")


def test_a_schema_without_references_weighs_what_one_value_can_meet() -> None:
    item = {"type": "object", "properties": {"x": {"enum": list("abcd")}}}
    wide: JSONObject = {"properties": {f"p{n}": {"type": "string"} for n in range(100)}}

    assert weight_of(SchemaGraph({"properties": {"a": {"items": item}}})) == 6
    assert weight_of(SchemaGraph(wide)) == 2
    assert weight_of(SchemaGraph({"allOf": [wide, wide]})) == 4


@rows("value", [{}, {"a": 1}, {"a": [0] * 100}, {"a": {"b": "x" * 900}}])
def test_the_size_counts_every_value_and_its_text(value: JSONObject) -> None:
    assert 1 <= size_of(value) <= 500


KEYWORDS = ["allOf", "anyOf", "oneOf", "not", "items", "if", "unevaluatedProperties", "contains"]
REFERENCES = ["#", "#/$defs/a", "https://example.com/x", "#/allOf/0"]
schemas = st.recursive(
    st.booleans()
    | st.just({})
    | st.dictionaries(
        st.sampled_from(["$ref", "$dynamicRef"]), st.sampled_from(REFERENCES), min_size=1
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS), inner | st.lists(inner, min_size=1, max_size=3), max_size=3
    ),
    max_leaves=10,
)


@pytest.mark.requirement("THR-10")
@given(schemas)
def test_a_tool_is_too_costly_if_and_only_if_its_schema_is(schema: JSONValue) -> None:
    takes = {"type": "object", "properties": {"x": schema}, "$defs": {"a": schema}}
    tool = Tool.from_mcp(ServerName("a"), make_definition("x", inputSchema=takes))

    assert too_costly_tool(tool) == too_costly(tool.upstream_schema)
