"""C01: four megabytes of every kind, through every meta-tool, while somebody else goes on calling.

A clock on the wall would measure the machine. What is measured is CPU time, beside that of a text
of the same length which nobody has to understand.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from discovery_engine.engine import Engine
from discovery_engine.tools import JSONObject
from discovery_server.gateway import make_server
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server import web
from tests.unit.server.wire import INITIALIZE, INITIALIZED, Wire, call, served
from tests.unit.validation.test_evaluation import chain, tree

pytestmark = pytest.mark.anyio

SIZE = (4 << 20) - 4096  # bytes: what fits into a message over HTTP
LONGEST_ANSWER = 16_384  # bytes
AS_MUCH = (
    40  # times the CPU time of a text that nobody has to understand; it was 5 to 500 times more
)
NEIGHBOUR = {"query": "do plain things"}

Post: TypeAlias = Callable[[str, JSONObject], Awaitable[JSONObject]]

TEXTS = {
    "one word": "a" * SIZE,
    "many words": "create an issue and list files " * (SIZE // 31),
    "words that nobody knows": " ".join(f"w{n}x" for n in range(SIZE // 9)),
    "Chinese": "\u641c\u7d22\u6587\u4ef6" * (SIZE // 12),
    "combining marks": "e" + "\u0301" * (SIZE // 2 - 1),
    "separators": "a:b__c." * (SIZE // 7),
    "clauses": "a b, " * (SIZE // 5),
}
VALUES: dict[str, Any] = {
    "many keys": {f"key_{n}": n for n in range(100_000)},
    "many elements": ["x"] * 100_000,
    "nested": json.loads("[" * 150 + "]" * 150),
}


OVER_HTTP = ("one word", "Chinese", "many keys")  # the engine is the same behind either
TOOLS = {
    "list_mcp_servers": (),
    "search_tools": ("query", "queries", "server", "tags"),
    "list_tools": ("server",),
    "get_tool_details": ("server", "tool"),
    "execute_tool": ("server", "tool"),
}
"""The arguments of each meta-tool that are text."""
USUAL = {"query": "x", "server": "told", "tool": "plain"}


def of_text(tool: str, text: str) -> list[JSONObject]:
    """Arguments with `text` in each place that takes any, and in one that does not."""
    takes = TOOLS[tool]
    usual = {name: value for name, value in USUAL.items() if name in takes}
    found: list[JSONObject] = [{text: 1}, {**usual, "unknown": text}]
    listed = ("queries", "tags")
    found += [{**usual, name: [text] if name in listed else text} for name in takes]
    if tool == "execute_tool":
        found.append({"tool": "told:plain", "arguments": {text: 1}})
        found.append({"tool": "told:plain", "arguments": text})
    return found


def of_value(tool: str, value: Any) -> list[JSONObject]:
    found: list[JSONObject] = [{name: value} for name in (*TOOLS[tool], "unknown")]
    if tool == "execute_tool":
        found.append({"tool": "told:plain", "arguments": value})
        found.append({"tool": "told:chain", "arguments": {"n": value}})
        found.append({"tool": "told:tree", "arguments": {"e": value}})
        found.append({"tool": "told:closed", "arguments": value})
    return [*found, value] if isinstance(value, dict) else found


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Engine]:
    told = Told.beside(
        folder,
        make_definition("plain", "Does plain things."),
        make_definition("chain", inputSchema=chain("oneOf", links=40)),
        make_definition("closed", inputSchema={"type": "object", "additionalProperties": False}),
        make_definition("tree", inputSchema=tree("add", "subtract")),
    )
    kept = Folder(folder)
    kept.write(told.server())
    async with kept.open() as engine:
        await engine.refresh()
        yield engine


@asynccontextmanager
async def over_stdio(engine: Engine) -> AsyncIterator[tuple[Post, Post]]:
    async with served(make_server(engine)) as bad, served(make_server(engine)) as good:
        for wire in (bad, good):
            await wire.ask(INITIALIZE)
            await wire.send(INITIALIZED)
        yield _posting(bad), _posting(good)


def _posting(wire: Wire) -> Post:
    async def post(tool: str, arguments: JSONObject) -> JSONObject:
        message = call(8, tool, **arguments)
        return await wire.ask(json.dumps(message, ensure_ascii=False).encode())

    return post


@asynccontextmanager
async def over_http(engine: Engine) -> AsyncIterator[tuple[Post, Post]]:
    async with web.served(engine) as address, web.SessionClient(address) as client:
        yield await _in_session(client), await _in_session(client)


async def _in_session(client: web.SessionClient) -> Post:
    session = await client.open()

    async def post(tool: str, arguments: JSONObject) -> JSONObject:
        response = await client.call(tool, arguments, session=session)
        *_, data = response.text.strip().removeprefix("data: ").split("\ndata: ")
        message: JSONObject = json.loads(data)
        return message

    return post


async def hold_up(post: Post, tool: str, hostile: list[JSONObject]) -> None:
    """Send what is hostile; it costs no more than a text of that length, and neither do answers."""
    before = time.process_time()
    await post("execute_tool", {"tool": "none", "arguments": {"text": "x" * SIZE}})
    plain = time.process_time() - before
    for arguments in hostile:
        before = time.process_time()
        answer = await post(tool, arguments)
        assert time.process_time() - before < AS_MUCH * plain
        assert len(json.dumps(answer)) < LONGEST_ANSWER


@pytest.mark.requirement("THR-12")
@pytest.mark.parametrize(
    ("transport", "kind"),
    [
        *(pytest.param(over_stdio, kind, id=f"stdio, {kind}") for kind in (*TEXTS, *VALUES)),
        *(pytest.param(over_http, kind, id=f"http, {kind}") for kind in OVER_HTTP),
    ],
)
async def test_nothing_that_one_client_sends_holds_up_another(
    transport: Callable[[Engine], Any], kind: str, tmp_path: Path
) -> None:
    answered = 0

    async def go_on() -> None:
        nonlocal answered
        while True:
            answer = await neighbour("search_tools", NEIGHBOUR)
            assert "told:plain" in answer["result"]["content"][0]["text"]
            answered += 1

    async with (
        gateway(tmp_path) as engine,
        transport(engine) as (bad, neighbour),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(go_on)
        for tool in TOOLS if kind in TEXTS else ("search_tools", "execute_tool"):
            is_text = kind in TEXTS
            hostile = of_text(tool, TEXTS[kind]) if is_text else of_value(tool, VALUES[kind])
            await hold_up(bad, tool, hostile)
        tasks.cancel_scope.cancel()

    assert answered > 0
