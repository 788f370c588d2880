from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.tools.signature import _Root, signature, type_text
from tests.factories import make_tool
from tests.rows import rows
from tests.unit.server.fakes import object_schema

PERSON = {"$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "items", "enum", "anyOf", "properties", "required", "$ref"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.requirement("MET-5")
@rows(
    ("schema", "text"),
    [
        pytest.param({"type": "string"}, "string", id="plain"),
        pytest.param({"type": "string", "format": "date"}, "string(date)", id="format"),
        pytest.param({"type": "integer", "minimum": 1, "maximum": 9}, "integer(1..9)", id="range"),
        pytest.param({"type": "number", "minimum": 0}, "number(0..)", id="open range"),
        pytest.param({"type": "number", "minimum": "x" * 9000}, "number", id="no range"),
        pytest.param({"enum": ["open", None, 3]}, '"open"|null|3', id="enum"),
        pytest.param({"enum": list(range(20))}, "0|1|2|3|4|5|6|7|8|9|10|11|(8 more)", id="many"),
        pytest.param({"const": "x"}, '"x"', id="const"),
        pytest.param({"type": "array", "items": {"type": "string"}}, "string[]", id="array"),
        pytest.param({"type": "array"}, "any[]", id="array of anything"),
        pytest.param({"type": "array", "items": {"enum": [1, 2]}}, "(1|2)[]", id="array of enum"),
        pytest.param({"type": ["string", "null"]}, "string|null", id="several types"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string|null", id="union"),
        pytest.param({"anyOf": []}, "any", id="empty union"),
        pytest.param(
            object_schema(("a",), a={"type": "integer"}, b={"type": "string"}),
            "{a: integer, b?: string}",
            id="object",
        ),
        pytest.param({"type": "object"}, "object", id="object of anything"),
        pytest.param({"$ref": "#/$defs/Person"}, "{name?: string}", id="local reference"),
        pytest.param({"$ref": "#/$defs/Nobody"}, "any", id="dangling reference"),
        pytest.param({"$ref": "https://example.com/x"}, "any", id="foreign reference"),
        pytest.param({}, "any", id="empty"),
        pytest.param(True, "any", id="no object"),
    ],
)
def test_schema_is_written_as_a_type(schema: object, text: str) -> None:
    assert type_text(schema, PERSON) == text


@given(JSON)
def test_whatever_a_server_sends_becomes_one_type(schema: object) -> None:
    assert type_text(schema, {})


def test_signature_names_the_required_ones_first_and_writes_types_out() -> None:
    state = {"enum": ["open", "closed"]}
    tool = make_tool(
        "list",
        inputSchema=object_schema(("owner",), state=state, owner={"type": "string"}),
    )

    assert signature(tool) == 'list(owner: string, state?: "open"|"closed")'


def test_members_come_in_one_order_however_they_were_written() -> None:
    members = {"b": {"type": "string"}, "a": {"type": "integer"}, "c": {"type": "null"}}
    backwards = dict(reversed(members.items()))

    texts = {type_text(object_schema(("c",), **named), {}) for named in (members, backwards)}

    assert texts == {"{c: null, a?: integer, b?: string}"}


@pytest.mark.requirement("THR-10")
def test_what_references_multiply_to_is_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    look_at = _Root.look_at

    def counting(root: _Root, count: int) -> None:
        nonlocal looked_at
        looked_at += count
        look_at(root, count)

    monkeypatch.setattr(_Root, "look_at", counting)
    unions = [{"$ref": f"#/$defs/y{n}"} for n in range(12)]
    definitions: JSONObject = {
        "x": {"properties": {f"m{n}": {"anyOf": unions} for n in range(24)}},
        **{f"y{n}": object_schema((), **{f"k{n}": {"anyOf": unions}}) for n in range(12)},
    }
    properties = {f"p{n}": {"$ref": "#/$defs/x"} for n in range(300)}
    schema = {**object_schema((), **properties), "$defs": definitions}

    text = signature(make_tool(inputSchema=schema))

    assert text.count("object") == 300
    assert looked_at < 20_000
