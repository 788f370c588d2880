"""What a server says of its tools is data, and harms nobody.

A server that means harm lists its tools beside an honest one; what is asserted is what must not
happen: nobody is reached, nothing stalls, no neighbour suffers, no word acts.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from discovery_engine.errors import InvalidArgumentsError
from tests.attacks.conftest import Repository
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told

HONEST = make_definition("count", "Counts the words of a text.")
LITTLE = 10  # seconds of CPU; what is not stopped takes years
REF = {"$ref": "#/$defs/next"}


def taking(schema: dict[str, Any], name: str = "odd", **definitions: Any) -> dict[str, Any]:
    """A tool with one argument of that schema."""
    fields = {"type": "object", "properties": {"x": schema}, "$defs": definitions}
    return make_definition(name, "Does something.", inputSchema=fields)


@asynccontextmanager
async def canary() -> AsyncIterator[tuple[str, list[object]]]:
    """An address, and who came there: nobody should."""
    visits: list[object] = []

    async def note(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            visits.append(stream)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, note)
        yield f"http://127.0.0.1:{port}/schema.json", visits
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("THR-10")
async def test_no_reference_of_a_schema_is_followed(folder: Folder) -> None:
    async with canary() as (address, visits):
        evil = [taking({"$ref": address}, "web"), taking({"$ref": "file:///etc/hostname"}, "file")]
        told = Told.beside(folder.path, *evil, HONEST)
        folder.write(told.server())
        async with folder.open() as engine:
            await engine.refresh()
            for name in ("web", "file", "count"):
                await engine.execute("told", name, {"x": 1})
            engine.view.search("does something")
            await engine.details("told", "web")

    assert visits == []
    assert told.calls == 3


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"op": "add", "next": value, "other": 1}
    return value


def operation(name: str) -> dict[str, Any]:
    fields = {"op": {"const": name}, "next": REF, "other": REF}
    return {"type": "object", "properties": fields, "required": ["op", "next"]}


def doubling(keyword: str, links: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(links)
    }
    return taking({"$ref": "#/$defs/d0"}, **definitions, **{f"d{links}": {"type": "string"}})


TREE = {"anyOf": [operation("add"), operation("subtract"), {"type": "number"}]}
CONDITION = {"if": {"properties": {"next": REF}}, "then": {"properties": {"next": REF}}}
ANCHORED = {**TREE, "$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}] * 2}
COSTLY: dict[str, tuple[dict[str, Any], Any]] = {
    "a pattern": (taking({"pattern": "^(a+)+$"}), "a" * 100_000 + "!"),
    "a pattern with a reference": (taking({"pattern": r"^(?:(a+)+)\1$"}), "a" * 100_000 + "!"),
    "a chain": (doubling("allOf", 40), "text"),
    "a chain of choices": (doubling("anyOf", 40), 5),
    "a chain of single choices": (doubling("oneOf", 40), 5),
    "a tree": (taking(REF, next=TREE), nested("wrong", 100)),
    "conditions": (taking(REF, next=CONDITION), nested(1, 40)),
    "negations": (taking(REF, next={"not": {"properties": {"next": REF}}}), nested(1, 21)),
    "dynamic references": (taking(REF, next=ANCHORED), nested("wrong", 20)),
    "many wrong elements": (taking({"items": {"type": "string"}}), [1] * 500_000),
    "a wrong one at the end": (taking({"items": {"type": "integer"}}), [*range(100_000), "x"]),
    "all different": (taking({"uniqueItems": True}), [[n] for n in range(100_000)]),
    "texts of numbers in a tree": (taking(REF, next=TREE), nested("1", 100)),
    "a JSON text that nests": (taking({"type": "array"}), "[" * 2_000_000),
    "a text of a long number": (taking({"type": "integer"}), "1" * 4_000_000),
}


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("THR-10")
async def test_no_schema_and_no_value_takes_more_than_little_time(folder: Folder) -> None:
    tools = [{**tool, "name": f"t{n}"} for n, (tool, _) in enumerate(COSTLY.values())]
    folder.write(Told.beside(folder.path, *tools).server())
    too_long: list[str] = []

    async with folder.open() as engine:
        await engine.refresh()
        assert len(engine.view.list_tools("told").entries) == len(COSTLY)
        for number, (way, (_, value)) in enumerate(COSTLY.items()):
            before = time.process_time()
            with suppress(InvalidArgumentsError):
                await engine.execute("told", f"t{number}", {"x": value})
            if time.process_time() - before > LITTLE:
                too_long.append(way)

    assert too_long == []


@pytest.mark.anyio
@pytest.mark.requirement("UPS-40")
async def test_what_is_odd_or_too_large_is_dropped_and_spoils_no_other_tool(folder: Folder) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    many = {"type": "object", "properties": {f"a{n}": {} for n in range(10_000)}}
    large = [
        make_definition("deep", inputSchema=deep),
        make_definition("many", inputSchema=many),
        make_definition("long", "x" * 1_000_000),
    ]
    values = ["\ud83d", "a\0b", 2**70, float("nan"), json.loads("[" * 90 + "]" * 90)]
    odd = [
        [
            taking({"type": "string", "default": value}, "default"),
            taking({"type": "string", "description": str(value)}, f"described{value}"),
            make_definition("meta", _meta={f"key{value}": value}),
        ]
        for value in values
    ]
    told = Told.beside(folder.path, HONEST, *large)
    folder.write(told.server())

    async with folder.open() as engine:
        await engine.refresh()
        dropped = {tool.name for tool in engine.view.catalog.part("told").dropped}
        for tools in odd:
            told.says(HONEST, *tools)
            await engine.refresh()
        told.says(HONEST, make_definition("second"))
        await engine.refresh()
        names = [entry.tool.name for entry in engine.view.list_tools("told").entries]
        await engine.execute("told", "count", {})
    async with folder.open() as engine:
        again = [entry.tool.name for entry in engine.view.list_tools("told").entries]

    assert dropped == {"deep", "many", "long"}
    assert names == again == ["count", "second"]
    assert told.calls == 1


@pytest.mark.requirement("TXT-1")
def test_no_markup_acts_on_a_terminal(repository: Repository) -> None:
    shown_as_it_is = "x [/x] [link=file:///etc/passwd]here[/link] [bold red]"
    markup = f"{shown_as_it_is} \x1b]8;;http://e\x07e"
    tool = make_definition("odd", f"Odd {markup} text.", title=markup)
    command, *args = Told.beside(repository.home, tool, HONEST).command
    own = repository.home / "config" / "discovery" / "discovery.yaml"
    own.parent.mkdir(parents=True)
    server = {"command": command, "args": args, "trust": "open"}
    own.write_text(json.dumps({"servers": {"told": server}}), "utf-8")
    environ = {"COLUMNS": "300", "FORCE_COLOR": "1"}

    commands = (["refresh"], ["search", "odd"], ["tools", "told"], ["inspect", "told:odd"])
    shown = [repository(*words, **environ) for words in commands]

    assert [done.code for done in shown] == [0, 0, 0, 0]
    assert "\x1b" not in "".join(done.out + done.err for done in shown)
    assert all(shown_as_it_is in done.out for done in shown[1:])


@pytest.mark.anyio
@pytest.mark.requirement("REL-2")
async def test_keywords_bring_no_tool_before_those_that_are_named(folder: Folder) -> None:
    verbs = ["create", "delete", "list", "update", "search", "send", "open", "close", "merge"]
    nouns = ["issue", "file", "mail", "page", "user", "branch", "event", "note", "task"]
    names = [f"{verb}_{noun}" for verb in verbs for noun in nouns]
    stuffed = make_definition("do", " ".join([*verbs, *nouns] * 20))
    tools = [make_definition(name, f"{name}.") for name in names]
    folder.write(Told.beside(folder.path, *tools, stuffed).server())

    async with folder.open() as engine:
        await engine.refresh()
        first = [engine.view.search(name).hits[0].entry.tool.name for name in names]

    assert first == names
