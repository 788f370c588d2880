"""The arguments of tools: read from any schema, and sent as it wants them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from mcp import Client

from discovery_engine import Engine
from discovery_engine.errors import InvalidArgumentsError
from discovery_server.gateway import Gateway
from tests.catalogs import JSONObject, JSONValue
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server.sdk_client import connected

pytestmark = pytest.mark.anyio

ABSENT: Any = object()
A = {"a": {"type": "string"}}
UNCHECKED = "Note: the arguments were not checked: its server does not describe them"


class Home(NamedTuple):
    told: Told
    engine: Engine
    client: Client

    async def text(self, name: str, **arguments: JSONValue) -> str:
        return text_of(await self.client.call_tool(name, arguments))

    async def execute(self, tool: str, arguments: JSONObject) -> Any:
        call = {"server": "told", "tool": tool, "arguments": arguments}
        return await self.client.call_tool("execute_tool", call)


@asynccontextmanager
async def home(path: Path, *tools: JSONObject, **server: Any) -> AsyncIterator[Home]:
    told, folder = Told.beside(path, *tools), Folder(path)
    folder.write(told.server(), server=server)
    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            yield Home(told, engine, client)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def one(schema: JSONValue, **properties: JSONValue) -> JSONObject:
    return {"type": "object", "properties": {"v": schema, **properties}}


SCHEMAS: dict[str, tuple[JSONValue, str]] = {
    "absent": (ABSENT, "(…)"),
    "null": (None, "(…)"),
    "empty": ({}, "(…)"),
    "list": ([], "(…)"),
    "text": ("object", "(…)"),
    "true": (True, "(…)"),
    "dialect": ({"$schema": "http://json-schema.org/draft-07/schema#"}, "(…)"),
    "of-text": ({"type": "string"}, "(…)"),
    "any-names": ({"type": "object", "additionalProperties": {"type": "string"}}, "(…)"),
    "no-type": ({"properties": A, "required": ["a"]}, "(a: string)"),
    "type-null": ({"type": None, "properties": A}, "(a?: string)"),
    "capitals": ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, "(a?: string)"),
    "elsewhere": ({"$ref": "https://schemas.example/a"}, "(…)"),
    "nowhere": ({"type": "object", "$ref": "#/$defs/a"}, "(…)"),
    "listed": ({"type": "object", "properties": [{"name": "a"}]}, "(…)"),
    "named": ({"type": "object", "propertyNames": {"pattern": "^a"}}, "(…)"),
    "type-list": ({"type": ["object"], "properties": A}, "(a?: string)"),
    "php": ({"type": "object", "properties": [], "required": None}, "()"),
    "php-inside": (one({"type": "object", "properties": []}), "(v?: object)"),
    "null-inside": (one({"type": "string", "description": None}), "(v?: string)"),
    "branches": (
        {"anyOf": [{"properties": A}, {"properties": {"b": {}}}]},
        "(a?: string, b?: any)",
    ),
}


OPEN = ("any-names", "elsewhere", "nowhere", "listed", "named")
"""Whose schema says something about arguments that it does not name."""


@pytest.mark.requirement("UPS-40", "MET-26", "MOD-1")
async def test_a_tool_is_kept_whatever_its_input_schema_is(tmp_path: Path) -> None:
    definitions = {name: make_definition(name, inputSchema=s) for name, (s, _) in SCHEMAS.items()}
    del definitions["absent"]["inputSchema"]
    wrong = []

    async with home(tmp_path, *definitions.values()) as at:
        for name, (_, shown) in SCHEMAS.items():
            line = (await at.text("search_tools", query=name, maxTokens=5000)).replace("\n  ", "")
            details = await at.text("get_tool_details", server="told", tool=name)
            called = text_of(await at.execute(name, {"a": "x"}))
            is_unknown = shown == "(…)"
            is_unchecked = is_unknown and name not in OPEN
            expected = {
                "details": ("does not describe" in details) is is_unknown,
                "no arguments": ("takes no arguments" in details) is (shown == "()"),
                "called": called == (f"{name}\n{UNCHECKED}" if is_unchecked else name),
                "found": f"told:{name}" in line,
            }
            wrong += [f"{name}: {what}" for what, holds in expected.items() if not holds]
        entries = at.engine.view.list_tools("told").entries
        schemas = {entry.tool.name: entry.tool.input_schema for entry in entries}

    assert wrong == []
    assert {schema["type"] for schema in schemas.values()} == {"object"}
    assert schemas["null"] == {"type": "object", "additionalProperties": True}


ITEM = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PAIR = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "owner": {"type": "string"}},
    "required": ["name", "owner"],
}


def kind(value: str, name: str) -> JSONObject:
    properties = {"kind": {"const": value}, name: {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": ["kind", name]}


COMPOSED: dict[str, tuple[JSONObject, list[str], JSONObject, str]] = {
    "reference": (
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": ITEM}},
        ["id: integer"],
        {},
        "id is missing; it takes reference(id: integer)",
    ),
    "merged": (
        {"allOf": [ITEM, {"$ref": "#/definitions/P"}], "definitions": {"P": PAIR}},
        ["id: integer", "name: string", "owner: string"],
        {"id": 1, "name": "x"},
        "owner is missing; it takes merged(id: integer, name: string, owner: string)",
    ),
    "exclusive": (
        one({}, w={"type": "string"}) | {"oneOf": [{"required": ["v"]}, {"required": ["w"]}]},
        ["Needed: exactly one of v, w", "v?: any", "w?: string"],
        {},
        "one of v, w is missing; it takes exclusive(v?: any, w?: string; exactly one of v, w)",
    ),
    "both": (
        one({}, w={}) | {"oneOf": [{"required": ["v"]}, {"required": ["w"]}]},
        ["Needed: exactly one of v, w"],
        {"v": 1, "w": 2},
        "only one of v, w may be given; it takes both(",
    ),
    "some": (
        {"anyOf": [ITEM, PAIR]},
        ["Needed: at least one of (id), (name, owner)", "id?: integer", "owner?: string"],
        {"name": "x"},
        "owner is missing; it takes some(",
    ),
    "nearest": ({"anyOf": [ITEM, PAIR]}, [], {"id": "x"}, 'id: "x" is not of type "integer"; '),
    "kinds": (
        {"oneOf": [kind("a", "x"), kind("b", "y"), {"type": "null"}]},
        ['Needed: exactly one of (kind="a", x), (kind="b", y)', 'kind: "a"|"b"', "x?: integer"],
        {"kind": "b", "x": 1},
        "y is missing; it takes kinds(",
    ),
    "no-kind": ({"oneOf": [kind("a", "x"), kind("b", "y")]}, [], {"kind": "c"}, '"c" is none of'),
    "inside": (
        one({"anyOf": [ITEM, PAIR, {"type": "integer"}]}),
        [],
        {"v": {}},
        "v: one of (id), (name, owner) is missing; ",
    ),
    "circle": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        ["It may take arguments"],
        {},
        "",
    ),
    "ring": (one({}) | {"$ref": "#"}, ["v?: any"], {}, ""),
}


@pytest.mark.requirement("MET-40")
async def test_arguments_behind_references_and_in_branches_are_shown_and_named_in_errors(
    tmp_path: Path,
) -> None:
    tools = [make_definition(name, inputSchema=row[0]) for name, row in COMPOSED.items()]
    wrong = []

    async with home(tmp_path, *tools) as at:
        for name, (_, lines, arguments, error) in COMPOSED.items():
            details = await at.text("get_tool_details", server="told", tool=name)
            answer = text_of(await at.execute(name, arguments)).replace("\n", "; ")
            wrong += [f"{name}: {line!r} in {details!r}" for line in lines if line not in details]
            wrong += [] if error in answer else [f"{name}: {error!r} in {answer!r}"]
        found = await at.text("search_tools", query="exclusive")

    assert wrong == []
    assert "told:exclusive(exactly one of v, w)" in found


INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("integer", "number", "boolean"))
TEXTS = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"n": INTEGER}, "additionalProperties": False}
REFUSED: Any = object()
LEFT_OUT: Any = object()
READINGS: list[tuple[JSONObject, JSONValue, JSONValue]] = [
    (INTEGER, "5", 5),
    (INTEGER, " -17\n", -17),
    (INTEGER, "5.0", 5),
    (INTEGER, "12345678901234567890", 12345678901234567890),
    *((INTEGER, text, REFUSED) for text in ("05", "5.5", "+5", "1_0", "\u0665", "5 6", "", "five")),
    *((INTEGER, value, REFUSED) for value in (True, [5], {"n": 5}, 5.5)),
    (INTEGER, "1e400", REFUSED),
    (NUMBER, "1.5", 1.5),
    (NUMBER, "-1e-7", -1e-7),
    (NUMBER, "3", 3),
    *((NUMBER, text, REFUSED) for text in ("1e400", "1e-400", "NaN", "Infinity", "1,5", ".5")),
    (NUMBER, "0.12345678901234567890", REFUSED),
    (BOOLEAN, "true", True),
    (BOOLEAN, "False", False),
    *((BOOLEAN, value, REFUSED) for value in ("yes", "1", 1, 0, "null")),
    (TEXTS, '["a", "b"]', ["a", "b"]),
    (TEXTS, "[]", []),
    *((TEXTS, value, REFUSED) for value in ("a", '{"a": 1}', "a,b", "[1]", '["a"', [None])),
    ({"type": "array", "items": INTEGER}, '["1", 2]', [1, 2]),
    ({"type": "array", "items": INTEGER}, ["1", "x"], REFUSED),
    (OBJECT, '{"n": "1"}', {"n": 1}),
    (OBJECT, {"n": None}, {}),
    ({"patternProperties": {"^(": INTEGER}, "additionalProperties": False}, {"n": 5}, {"n": 5}),
    *((OBJECT, text, REFUSED) for text in ('{"n": 1, "n": 2}', "[]", '{"m": 1}', "null", "n=1")),
    (OBJECT, {"N": 5}, {"n": 5}),
    (OBJECT, {"N": 5, "n": 6}, REFUSED),
    ({"type": "string"}, "5", "5"),
    ({"type": "string"}, 5, REFUSED),
    ({"type": "string", "pattern": "^a"}, "5", REFUSED),
    ({"minLength": 3}, "5", REFUSED),
    ({"type": "string"}, None, LEFT_OUT),
    ({"type": "string", "nullable": True}, None, None),
    ({"$ref": "#/$defs/n"}, "5", 5),
    ({"allOf": [{"$ref": "#/$defs/n"}, {"minimum": 3}]}, "5", 5),
    ({"allOf": [{"$ref": "#/$defs/n"}, {"minimum": 3}]}, "2", REFUSED),
    ({"enum": [1, 2]}, "2", 2),
    ({"enum": []}, "a", "a"),
    ({"type": "string", "enum": [1, 2]}, "1", "1"),
    ({"type": "string", "pattern": "/^[a-z]+$/i"}, "a", "a"),
    ({"type": "INTEGER"}, "5", 5),
    ({"type": "int"}, "x", REFUSED),
    ({"const": True}, "true", True),
    ({"type": ["integer", "null"]}, "5", 5),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["integer", "string"]}, "5", "5"),
    ({"anyOf": [INTEGER, BOOLEAN]}, "5", 5),
    ({"anyOf": [INTEGER, NUMBER]}, "5", 5),
    ({"anyOf": [{"enum": ["auto"]}, INTEGER]}, "5", 5),
    ({"anyOf": [{"type": "array", "items": INTEGER}, {"type": "null"}]}, ["5"], [5]),
    (
        {"anyOf": [OBJECT, {"type": "object", "properties": {"n": BOOLEAN}}]},
        {"n": "true"},
        {"n": True},
    ),
    ({"anyOf": [{"prefixItems": [TEXTS]}, {"items": OBJECT}], "type": "array"}, ["[]"], [[]]),
    (
        {
            "anyOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": INTEGER}}],
            "minProperties": 2,
        },
        {"a": "1", "b": "2"},
        REFUSED,
    ),
]


@pytest.mark.requirement("MET-38")
async def test_what_has_one_reading_under_the_schema_is_sent_so_and_all_else_is_refused(
    tmp_path: Path,
) -> None:
    definitions = [
        make_definition(f"t{number}", inputSchema={**one(schema), "$defs": {"n": INTEGER}})
        for number, (schema, _, _) in enumerate(READINGS)
    ]
    wrong = []

    async with home(tmp_path, *definitions) as at:
        for number, (schema, given, expected) in enumerate(READINGS):
            before = at.told.calls
            try:
                result = await at.engine.execute("told", f"t{number}", {"v": given})
            except InvalidArgumentsError as error:
                sent, converted = REFUSED, f"it takes t{number}(" not in error.hint
            else:
                [arguments] = at.told.called_with[before:]
                sent = arguments.get("v", LEFT_OUT)
                places = result.get("_meta", {}).get("discovery/converted", [])
                converted = {place.split(".")[0] for place in places} == {"v"}
            is_same = type(sent) is type(expected) and (sent is expected or sent == expected)
            should_be_converted = expected is not REFUSED and repr(expected) != repr(given)
            if not is_same or converted is not should_be_converted:
                wrong.append(f"{schema} {given!r}: {sent!r}, {converted=}")

    assert wrong == []


@pytest.mark.requirement("MET-38", "MET-13")
async def test_arguments_are_converted_whichever_way_the_call_comes(tmp_path: Path) -> None:
    schema = {**one(INTEGER, of=OBJECT), "required": ["v"]}
    told = make_definition("act", inputSchema=schema)
    given = {"v": "5", "of": {"n": "6"}}
    ways: dict[str, JSONObject] = {}

    async with home(tmp_path, told, steps=True) as at:
        result = await at.execute("act", given)
        ways["execute_tool"] = {"places": (result.meta or {})["discovery/converted"]}
        await at.execute("act", {"params": given})
        await at.execute("act", {"arguments": '{"v": 5, "of": {"n": 6}}'})
        step = {"id": "a", "tool": "told:act", "arguments": given}
        await at.text("execute_steps", steps=[step])
        await at.engine.execute("told", "act", {"v": 5, "of": '{"n": 6}'})
        preview = await at.engine.preview("told", "act", given)
        refused = text_of(await at.execute("act", {"input": {"v": "x"}}))
        [*_, bound] = await at.engine.toolset(mode="select").select("act")
        await bound.call(given)
        sent = at.told.called_with

    async with home(tmp_path, told, mode="direct") as at:
        await at.client.call_tool("told__act", given)
        sent += at.told.called_with[-1:]

    assert sent == [{"v": 5, "of": {"n": 6}}] * 7
    assert ways == {"execute_tool": {"places": ["v", "of.n"]}}
    assert preview.arguments == {"v": 5, "of": {"n": 6}}
    assert "directly into the arguments, not under input" in refused


TOO_MANY: dict[str, Any] = {"type": "object", "properties": {"x": {"items": {"type": "integer"}}}}
PLAIN: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    folder = Folder(tmp_path)
    told = Told.beside(
        tmp_path,
        make_definition("plain", inputSchema=PLAIN),
        make_definition("many", inputSchema=TOO_MANY),
    )
    folder.write(told.server())
    return folder


@pytest.mark.thorough
@pytest.mark.requirement("THR-10", "MET-26")
async def test_what_was_not_checked_is_said_behind_the_result(folder: Folder) -> None:
    arguments = {"x": list(range(1_200_000))}

    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            with anyio.fail_after(60):
                call = {"server": "told", "tool": "plain", "arguments": {"x": 1}}
                checked = await client.call_tool("execute_tool", call)
                call = {"server": "told", "tool": "many", "arguments": arguments}
                result = await client.call_tool("execute_tool", call)

    assert [block.text for block in checked.content] == ["plain"]
    assert "discovery/answer" not in (checked.meta or {})
    assert [block.text for block in result.content] == [
        "many",
        "Note: the arguments were not checked: checking them takes too long",
    ]
    assert result.meta["discovery/answer"] == {"unchecked": "checking them takes too long"}
    assert not result.is_error
