from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONValue
from discovery_engine.tools.model import (
    ServerName,
    Tool,
    canonical_json,
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


@rows(
    ("description", "summary"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("Makes an issue", "Makes an issue", id="no full stop"),
        pytest.param("Makes an issue. Needs a token.", "Makes an issue.", id="first sentence"),
        pytest.param(
            "Submits a document (e.g. an invoice). Or not.",
            "Submits a document (e.g. an invoice).",
            id="abbreviation",
        ),
        pytest.param("Reads\n\n  v1.2\tfiles.", "Reads v1.2 files.", id="one line"),
        pytest.param("word " * 40, "word " * 23 + "word…", id="cut at a word"),
        pytest.param("one, " * 40, "one, " * 23 + "one…", id="no comma before the cut"),
        pytest.param("x" * 300, "x" * 120 + "…", id="nothing to cut at"),
        pytest.param("Use this tool to make an issue.", "Make an issue.", id="lead-in"),
        pytest.param("This tool makes an issue.", "Makes an issue.", id="its own name"),
        pytest.param(
            "Use this when asked for an issue. Makes one.", "Makes one.", id="what, not when"
        ),
        pytest.param("Use this when asked.", "Use this when asked.", id="nothing but when"),
        pytest.param(
            f"Deletes {'very ' * 24}old files, but never those of others. Ask first.",
            f"Deletes {'very ' * 16}very… but never those of others.",
            id="a negation stays",
        ),
    ],
)
def test_a_summary_is_the_first_sentence_on_one_short_line(description: str, summary: str) -> None:
    assert make_tool(description=description).summary == summary


# Parameters


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
