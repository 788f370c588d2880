"""The output schema of a result that may be cut: the law that what is left of it is valid."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from discovery_engine.agent.cutting import prune
from discovery_engine.agent.exposed_tools import cut_schema

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.sampled_from(["a", "b", "next", "wörter"]), inner, max_size=4)
    ),
    max_leaves=30,
)
OBJECTS = st.dictionaries(st.sampled_from(["items", "text", "x", "y"]), VALUES, max_size=4)


def exact(value: Any) -> dict[str, Any]:
    """A schema that demands as much of a value as one can."""
    match value:
        case bool() | None:
            return {"enum": [value]}
        case int():
            return {"type": "integer", "minimum": value, "maximum": value, "enum": [value]}
        case str():
            choice = {"enum": [value, "other"]}
            return {"type": "string", "minLength": len(value), "const": value, "oneOf": [choice]}
        case list():
            items = [exact(one) for one in value]
            some = {"contains": items[0], "minContains": 1} if items else {}
            listed = {"prefixItems": items, "items": False} if items else {}
            return {"type": "array", "minItems": len(items), **listed, **some}
    return {
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/{name}"} for name in value},
        "required": list(value),
        "minProperties": len(value),
        "unevaluatedProperties": False,
        "oneOf": [{"required": list(value)}],
    }


def schema_of(value: dict[str, Any]) -> dict[str, Any]:
    root = exact(value)
    # The members of nested objects are inlined; those of the root are references.
    root["$defs"] = {name: inlined(one) for name, one in value.items()}
    return root


def inlined(value: Any) -> dict[str, Any]:
    made = exact(value)
    if isinstance(value, dict):
        made["properties"] = {name: inlined(one) for name, one in value.items()}
    if isinstance(value, list) and value:
        made["prefixItems"] = [inlined(one) for one in value]
        made["contains"] = inlined(value[0])
    return made


@pytest.mark.thorough
@pytest.mark.requirement("MOD-11")
@given(OBJECTS, st.integers(1, 200))
def test_what_is_left_of_a_valid_value_matches_what_is_left_of_its_schema(
    value: dict[str, Any], tokens: int
) -> None:
    schema = schema_of(value)
    before = copy.deepcopy(schema)
    relaxed = cut_schema(schema)
    left = prune(value, tokens, "structuredContent").value

    Draft202012Validator(schema).validate(value)
    assert relaxed is not None
    Draft202012Validator.check_schema(relaxed)
    Draft202012Validator(relaxed).validate(value)
    Draft202012Validator(relaxed).validate({} if left is None else left)
    assert schema == before
