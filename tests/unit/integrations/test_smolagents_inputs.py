"""Arguments as smolagents describes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.integrations.smolagents_inputs import tool_input
from tests.rows import rows

ROOT: JSONObject = {
    "$defs": {"state": {"enum": ["open", "closed"]}, "ring": {"$ref": "#/$defs/ring"}}
}
ANY = ["string", "integer", "number", "boolean", "array", "object"]
# What `smolagents.Tool` checks, and what makes the schema for its models of it.
AUTHORIZED = {*ANY, "image", "audio", "any", "null"}


@pytest.mark.requirement("FRM-140")
@rows(
    ("schema", "expected"),
    [
        pytest.param(
            {"type": "string", "description": "Its title"},
            {"type": "string", "description": "Its title"},
            id="plain",
        ),
        pytest.param(
            {"enum": ["bug", "docs"]},
            {"type": "string", "description": '("bug"|"docs")', "enum": ["bug", "docs"]},
            id="choices",
        ),
        pytest.param(
            {"type": ["integer", "null"]},
            {"type": "integer", "description": "(integer|null)", "nullable": True},
            id="null",
        ),
        pytest.param(
            {"anyOf": [{"type": "number"}, {"type": "string"}]},
            {"type": ["string", "number"], "description": "(number|string)"},
            id="several",
        ),
        pytest.param(
            {"type": ["number", "boolean"]},
            {"type": ["integer", "number", "boolean"], "description": "(number|boolean)"},
            id="a whole number is a number",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "description": "(string[])", "items": {"type": "string"}},
            id="items",
        ),
        pytest.param(
            {"$ref": "#/$defs/state", "description": "How it is"},
            {"type": ANY, "description": 'How it is ("open"|"closed")'},
            id="a reference",
        ),
        pytest.param({}, {"type": ANY, "description": ""}, id="anything"),
        pytest.param(True, {"type": ANY, "description": ""}, id="true"),
        pytest.param({"$ref": "#/$defs/ring"}, {"type": ANY, "description": ""}, id="a ring"),
    ],
)
def test_the_description_says_what_the_type_cannot(schema: Any, expected: JSONObject) -> None:
    assert tool_input(schema, ROOT, is_required=True) == expected
    assert tool_input(schema, ROOT, is_required=False) == {**expected, "nullable": True}


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "const", "anyOf", "oneOf", "items", "$ref", "title"]),
            inner | st.sampled_from([*ANY, "null", "#/$defs/state", ["string", "null"]]),
            max_size=4,
        )
    ),
    max_leaves=10,
)


@pytest.mark.requirement("FRM-140")
@given(VALUES)
def test_whatever_a_schema_is_smolagents_takes_what_is_made_of_it(schema: Any) -> None:
    made = tool_input(schema, ROOT, is_required=True)

    kinds = [made["type"]] if isinstance(made["type"], str) else made["type"]
    assert kinds
    assert set(kinds) <= AUTHORIZED
    assert isinstance(made["description"], str)
    assert "anyOf" not in made
