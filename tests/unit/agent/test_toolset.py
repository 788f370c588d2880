"""Laws of the tools of a toolset."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine import Toolset
from discovery_engine._util.json import JSONObject
from discovery_engine.agent.content import ResultContent, TextPart
from discovery_engine.agent.portable_schema import PortableSchema
from discovery_engine.config.serve_settings import ServeSettings
from tests.factories import make_part, make_tool
from tests.rows import rows
from tests.unit.server.fakes import FakeEngine, make_engine, make_view

pytestmark = pytest.mark.anyio


def toolset(engine: FakeEngine, **options: Any) -> Toolset:
    return Toolset(engine, **options)  # type: ignore[arg-type] - it searches and calls as an engine


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


def bytes_of(tools: Toolset) -> str:
    return json.dumps([tools.as_openai_functions(), tools.as_anthropic_tools(defer=False)])


@pytest.mark.requirement("FRM-1")
@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), unique=True, max_size=6),
    st.sampled_from(["standard", "gemini"]),
    st.integers(10, 200),
)
def test_every_name_fits_the_alphabet_of_models_and_leads_back_to_its_tool(
    tools: list[tuple[str, str]], style: Literal["standard", "gemini"], length: int
) -> None:
    servers = sorted({server for server, _ in tools})
    parts = [make_part(s, *(t for server, t in tools if server == s)) for s in servers]
    serving = ServeSettings(max_tool_name_length=length)
    view = make_view(*parts, tool_rules=(), server=serving)
    made = toolset(FakeEngine(view), mode="select", name_style=style)

    listed = made.available()

    assert len(set(names(listed))) == len(listed) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names(listed))
    assert [made.named(tool.name).origin for tool in listed] == [tool.origin for tool in listed]
    assert style == "standard" or all(name.isidentifier() for name in names(listed))


@pytest.mark.requirement("FRM-3")
@given(st.lists(st.sampled_from(["one", "two", "three", "four", "nothing"]), max_size=8))
async def test_the_same_conversation_binds_the_same_bytes(requests: list[str]) -> None:
    tools = [make_tool(n, "s", description=f"Do {n}.") for n in ("one", "two", "three", "four")]
    engine = make_engine(make_part("s", *tools))
    made = [toolset(engine, mode="select", limit=2) for _ in range(2)]

    for one in made:
        for request in requests:
            await one.select(request)

    assert bytes_of(made[0]) == bytes_of(made[1])
    assert len(made[0].tools()) <= 4


@pytest.mark.requirement("FRM-5")
@rows(
    ("own", "shown"),
    [
        pytest.param({}, {"type": "object", "properties": {}}, id="nothing"),
        pytest.param(
            {"$schema": "x", "type": "object", "properties": {"a": True}},
            {"type": "object", "properties": {"a": {}}},
            id="a property of any value",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}}],
            },
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            id="branches",
        ),
        pytest.param(
            {
                "allOf": [{"$ref": "#/$defs/base"}],
                "$defs": {"base": {"properties": {"a": {}}, "required": ["a"]}},
            },
            {
                "$defs": {"base": {"properties": {"a": {}}, "required": ["a"]}},
                "type": "object",
                "properties": {"a": {}},
                "required": ["a"],
            },
            id="what all branches need",
        ),
        pytest.param(
            {"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}},
            {"$defs": {"loop": {"$ref": "#/$defs/loop"}}, "type": "object", "properties": {}},
            id="a reference to itself",
        ),
        pytest.param(
            {"properties": {"$filter": {}, "_filter": {}, "a b": {}}, "required": ["$filter"]},
            {
                "type": "object",
                "properties": {"filter": {}, "_filter": {}, "a_b": {}},
                "required": ["filter"],
            },
            id="names that no API takes",
        ),
        pytest.param(
            {
                "properties": {
                    "pair": {"type": "array", "items": [{"type": "string"}]},
                    "list": {"type": ["array", "null"]},
                    "count": {"minimum": 0, "exclusiveMinimum": True, "required": True},
                },
                "required": ["pair"],
            },
            {
                "type": "object",
                "properties": {
                    "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {}},
                    "list": {"type": ["array", "null"], "items": {}},
                    "count": {"exclusiveMinimum": 0},
                },
                "required": ["pair"],
            },
            id="words of older drafts",
        ),
        pytest.param(
            {
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "text", "description": "Its text", "minLength": "2"},
                    "c": {"$ref": "#/$defs/none"},
                    "d": {"$ref": "https://example.org/schema"},
                },
                "required": ["b"],
            },
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"description": "Its text"},
                    "c": {},
                    "d": {},
                },
                "required": ["b"],
            },
            id="properties that are not valid",
        ),
    ],
)
def test_parameters_are_what_the_apis_of_models_take(own: JSONObject, shown: JSONObject) -> None:
    assert PortableSchema.of(own).schema == shown


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.none() | st.text(max_size=3) | st.just({"type": "string"}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("properties", "required", "anyOf", "allOf", "$ref", "$defs", "a", "$b"),
                    *("type", "items", "minimum", "exclusiveMinimum", "additionalProperties"),
                ]
            ),
            inner | st.just("#/$defs/a") | st.just(["a", "$b"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.requirement("FRM-5")
@given(st.dictionaries(st.sampled_from(["properties", "anyOf", "$ref", "$defs"]), SCHEMAS))
def test_whatever_a_server_sends_as_a_schema_becomes_one_that_apis_take(own: JSONObject) -> None:
    made = PortableSchema.of(own)

    assert made.schema["type"] == "object"
    assert not {"anyOf", "allOf", "oneOf", "not", "enum", "$ref"} & made.schema.keys()
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", n) for n in made.schema["properties"])
    assert jsonschema_rs.meta.is_valid(made.schema)
    assert set(made.schema.get("required", ())) <= made.schema["properties"].keys()


@pytest.mark.requirement("FRM-100")
@rows(
    ("texts", "structured", "added"),
    [
        pytest.param(["3 rows"], {"rows": [1, 2, 3]}, ['{"rows": [1, 2, 3]}'], id="a summary"),
        pytest.param(['{ "n":1 }'], {"n": 1}, [], id="the same as text"),
        pytest.param(["sunny"], {"result": "sunny"}, [], id="a wrapped text"),
        pytest.param(["5"], {"result": 5}, [], id="a wrapped number"),
        pytest.param(["a", "b"], {"result": ["a", "b"]}, [], id="wrapped texts, one by one"),
        pytest.param(['{"a": 1}', "2"], {"result": [{"a": 1}, 2]}, [], id="wrapped values"),
        pytest.param(["a"], {"result": ["a", "b"]}, ['{"result": ["a", "b"]}'], id="a part of it"),
        pytest.param([], {"n": 1}, ['{"n": 1}'], id="no text"),
        pytest.param(["x"], None, [], id="none"),
    ],
)
def test_structured_content_is_shown_unless_a_text_says_it(
    texts: list[str], structured: JSONObject | None, added: list[str]
) -> None:
    content = [{"type": "text", "text": text} for text in texts]

    made = ResultContent.of({"content": content, "structuredContent": structured})

    assert made.parts == tuple(map(TextPart, [*texts, *added]))
    assert made.structured == structured
