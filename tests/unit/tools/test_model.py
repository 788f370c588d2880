from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONValue
from discovery_engine.tools.model import (
    Parameter,
    ServerName,
    Tool,
    ToolKey,
    ToolName,
    canonical_json,
    fingerprint,
)
from tests.factories import make_definition, make_tool
from tests.rows import rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def schema(*required: str, **properties: JSONValue) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def shuffled(value: JSONValue) -> JSONValue:
    """The same value with every object's keys the other way round."""
    match value:
        case dict():
            return {key: shuffled(value[key]) for key in reversed(value)}
        case list():
            return list(map(shuffled, value))
    return value


# Canonical JSON and fingerprints


@given(JSON)
def test_canonical_json_says_what_it_was_made_from(value: JSONValue) -> None:
    assert json.loads(canonical_json(value)) == value


@given(JSON)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: JSONValue) -> None:
    assert canonical_json(shuffled(value)) == canonical_json(value)


@given(JSON)
def test_canonical_json_can_be_stored_and_sent_as_utf_8(value: JSONValue) -> None:
    assert canonical_json(value).encode().decode() == canonical_json(value)


def test_a_lone_surrogate_is_escaped_even_behind_a_backslash() -> None:
    assert canonical_json(["\ud800", "\\\udfff", "\U0001f600"]) == (
        '["\\ud800","\\\\\\udfff","\U0001f600"]'
    )


def test_a_fingerprint_is_the_sha_256_of_the_text() -> None:
    known = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

    assert fingerprint("{}") == known


@rows(
    "change",
    [
        pytest.param({"description": "another"}, id="description"),
        pytest.param({"inputSchema": schema(x={"type": "string"})}, id="schema"),
        pytest.param({"annotations": {"destructiveHint": True}}, id="annotations"),
        pytest.param({"_meta": {"vendor/x": 1}}, id="a field nobody knows"),
    ],
)
def test_every_field_that_an_upstream_gives_is_in_the_fingerprint(change: dict[str, Any]) -> None:
    before = make_definition("x")
    server = ServerName("a")

    one, other = Tool.from_mcp(server, before), Tool.from_mcp(server, before | change)

    assert one.fingerprint != other.fingerprint


# One tool


def test_a_prefix_is_in_the_name_and_nowhere_else() -> None:
    bare, prefixed = make_tool("get"), make_tool("get", prefix="gh_")

    assert prefixed.key == ToolKey(ServerName("github"), ToolName("gh_get"))
    assert prefixed.upstream_name == "get"
    assert prefixed.definition["name"] == "get"
    assert prefixed.fingerprint == bare.fingerprint


def test_a_definition_keeps_what_nobody_here_knows() -> None:
    definition = make_definition("x", icons=[{"src": "x.png"}]) | {"x-vendor": None}

    assert Tool.from_mcp(ServerName("a"), definition).definition == definition


def test_keys_are_ordered_by_server_then_tool() -> None:
    keys = [ToolKey(ServerName(s), ToolName(t)) for s, t in ("ba", "ab", "aa")]

    assert [str(key) for key in sorted(keys)] == ["a:a", "a:b", "b:a"]


@rows(
    ("fields", "title", "description"),
    [
        pytest.param({"description": "Does it."}, "", "Does it.", id="description"),
        pytest.param({"description": "", "title": "It"}, "It", "It", id="title stands in"),
        pytest.param({"annotations": {"title": "It"}}, "It", "It", id="title in annotations"),
        pytest.param(
            {"title": "New", "annotations": {"title": "Old"}}, "New", "New", id="newer title"
        ),
        pytest.param({"description": 3, "title": ["x"]}, "", "", id="not text"),
        pytest.param({"annotations": "none"}, "", "", id="annotations are not an object"),
    ],
)
def test_title_and_description(fields: dict[str, Any], title: str, description: str) -> None:
    tool = Tool.from_mcp(ServerName("a"), {"name": "x", **fields})

    assert (tool.title, tool.description) == (title, description)


@rows(
    ("description", "summary"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("Makes an issue", "Makes an issue", id="no full stop"),
        pytest.param("Makes an issue. Needs a token.", "Makes an issue.", id="first sentence"),
        pytest.param("Reads\n\n  v1.2\tfiles.", "Reads v1.2 files.", id="one line"),
        pytest.param("word " * 40, "word " * 23 + "word…", id="cut at a word"),
        pytest.param("one, " * 40, "one, " * 23 + "one…", id="no comma before the cut"),
        pytest.param("x" * 300, "x" * 120 + "…", id="nothing to cut at"),
    ],
)
def test_a_summary_is_the_first_sentence_on_one_short_line(description: str, summary: str) -> None:
    assert make_tool(description=description).summary == summary


# Parameters


def test_parameters_come_required_first_then_by_name() -> None:
    properties = {name: {"type": "string"} for name in ("b", "a", "d", "c")}

    tool = make_tool("create", inputSchema=schema("d", "c", **properties))

    assert [(p.name, p.required) for p in tool.parameters] == [
        ("c", True),
        ("d", True),
        ("a", False),
        ("b", False),
    ]


def test_a_parameter_keeps_its_schema_and_description() -> None:
    facts = {"type": "integer", "description": "How many", "minimum": 1}

    tool = make_tool(inputSchema=schema("n", n=facts))

    assert tool.parameters == (Parameter("n", "integer", "How many", True, facts),)


@rows(
    ("facts", "type_name"),
    [
        pytest.param({"type": "array"}, "array", id="one"),
        pytest.param({"type": ["string", "null"]}, "string|null", id="several"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string|null", id="anyOf"),
        pytest.param({"oneOf": [{"type": "number"}, {"type": "number"}]}, "number", id="doubles"),
        pytest.param({"anyOf": [True, {"$ref": "#/x"}]}, "any", id="branches without a type"),
        pytest.param({"anyOf": []}, "any", id="no branch"),
        pytest.param({"anyOf": "x", "oneOf": [{"type": "null"}]}, "null", id="anyOf is no list"),
        pytest.param({}, "any", id="nothing"),
        pytest.param(True, "any", id="a schema that is not an object"),
    ],
)
def test_the_type_of_a_parameter_in_a_word(facts: JSONValue, type_name: str) -> None:
    [parameter] = make_tool(inputSchema=schema(x=facts)).parameters

    assert parameter.type == type_name


def test_unions_nested_without_end_are_cut_off() -> None:
    facts: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        facts = {"anyOf": [facts]}

    [parameter] = make_tool("x", inputSchema=schema(x=facts)).parameters

    assert parameter.type == "any"


@rows(
    "input_schema",
    [
        pytest.param(None, id="null"),
        pytest.param("object", id="text"),
        pytest.param({"properties": ["x"]}, id="properties are a list"),
        pytest.param({"type": "object"}, id="no properties"),
    ],
)
def test_a_schema_that_says_nothing_has_no_parameters(input_schema: JSONValue) -> None:
    assert make_tool("x", inputSchema=input_schema).parameters == ()


@given(
    fields=st.dictionaries(st.sampled_from(["title", "annotations", "description"]), JSON),
    properties=JSON,
    required=JSON | st.lists(JSON, max_size=3),
)
def test_whatever_a_server_sends_can_be_shown(
    fields: dict[str, Any], properties: JSONValue, required: JSONValue
) -> None:
    input_schema = {"properties": properties, "required": required}
    definition = make_definition("x") | fields | {"inputSchema": input_schema}

    tool = Tool.from_mcp(ServerName("a"), definition)

    assert all(isinstance(p.name, str) for p in tool.parameters)
    assert "\n" not in tool.summary
    assert isinstance(tool.description, str)
    assert isinstance(tool.annotations, dict)
