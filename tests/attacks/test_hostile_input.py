"""Four megabytes of every kind, through every meta-tool, while somebody else goes on calling."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from discovery_engine import Engine
from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server import web
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call, served

pytestmark = pytest.mark.anyio

SIZE = (4 << 20) - 4096  # bytes: what fits into a message over HTTP
LONGEST_ANSWER = 16_384  # bytes
AS_MUCH = 150
"""Times the CPU of a text that nobody has to understand. Nested values took 300 times as much and
more before they were refused."""
AS_MUCH_OF_ELEMENTS = 1000
"""Elements are accepted and parsed: on a busy machine they take 200 times as much."""


def message(tool: str, arguments: Any) -> bytes:
    return json.dumps(call(8, tool, **arguments), ensure_ascii=False).encode()


PLAIN = message("execute_tool", {"tool": "none", "arguments": {"text": "x" * SIZE}})
NEIGHBOUR = message("search_tools", {"query": "do plain things"})

Post: TypeAlias = Callable[[bytes], Awaitable[dict[str, Any]]]

TEXTS = {
    "one word": "a" * SIZE,
    "many words": "create an issue and list files " * (SIZE // 31),
    "words that nobody knows": " ".join(f"w{n}x" for n in range(SIZE // 9)),
    "Chinese": "\u641c\u7d22\u6587\u4ef6" * (SIZE // 12),
    "combining marks": "e" + "\u0301" * (SIZE // 2 - 1),
    "separators": "a:b__c." * (SIZE // 7),
}
VALUES: dict[str, Any] = {
    "many keys": {f"key_{n:025}": None for n in range(100_000)},
    "many elements": ["x"] * (SIZE // 5),
    "nested": [json.loads("[" * 150 + "]" * 150)] * (SIZE // 304),
}
BRACKETS = (b"[" * SIZE, b'{"a":' * (SIZE // 5))
"""What is nested deeper than any reader of JSON goes, and never ends."""
TOOLS = {
    "list_mcp_servers": (),
    "search_tools": ("query", "queries", "server", "tags"),
    "list_tools": ("server",),
    "get_tool_details": ("server", "tool"),
    "execute_tool": ("server", "tool"),
}
"""The arguments of each meta-tool that are text."""
USUAL = {"query": "x", "server": "told", "tool": "plain"}
TOO_LONG: list[tuple[str, dict[str, Any]]] = [
    ("search_tools", {"query": "q" * 8193}),
    ("search_tools", {"query": "\u641c" * 2731}),
    ("search_tools", {"query": "q", "server": "n" * 257}),
    ("search_tools", {"query": "q", "tags": ["n" * 257]}),
    ("list_tools", {"server": "n" * 257}),
    ("get_tool_details", {"tool": "n" * 257}),
    ("execute_tool", {"server": "told", "tool": "n" * 257}),
    ("execute_tool", {"tool": "told:plain", "arguments": {"n" * 257: 1}}),
    ("execute_tool", {"tool": "told:plain", "arguments": {f"a{n}": 1 for n in range(1001)}}),
    ("execute_tool", {"n" * 257: 1}),
]


def of_text(tool: str, text: str) -> list[dict[str, Any]]:
    """Arguments with `text` in each place that takes any, and in one that does not."""
    takes = TOOLS[tool]
    usual = {name: value for name, value in USUAL.items() if name in takes}
    found: list[dict[str, Any]] = [{text: 1}, {**usual, "unknown": text}]
    listed = ("queries", "tags")
    found += [{**usual, name: [text] if name in listed else text} for name in takes]
    if tool == "execute_tool":
        found.append({"tool": "told:plain", "arguments": {text: 1}})
        found.append({"tool": "told:plain", "arguments": text})
    return found


def of_value(tool: str, value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{name: value} for name in (*TOOLS[tool], "unknown")]
    if tool == "execute_tool":
        found += [
            {"tool": f"told:{name}", "arguments": value if name == "closed" else {"n": value}}
            for name in ("plain", "closed")
        ]
    return [*found, value] if isinstance(value, dict) else found


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Engine]:
    closed = {"type": "object", "additionalProperties": False}
    tools = (
        make_definition("plain", "Does plain things."),
        make_definition("closed", inputSchema=closed),
    )
    home = Folder(folder)
    home.write(Told.beside(folder, *tools).server())
    async with home.open() as engine:
        await engine.refresh()
        yield engine


@asynccontextmanager
async def over_stdio(engine: Engine) -> AsyncIterator[tuple[Post, Post]]:
    async with served(Gateway(engine)) as bad, served(Gateway(engine)) as good:
        for wire in (bad, good):
            await wire.ask(INITIALIZE)
            await wire.send(INITIALIZED)
        yield bad.ask, good.ask


@asynccontextmanager
async def over_http(engine: Engine) -> AsyncIterator[tuple[Post, Post]]:
    async with web.served(engine) as address, web.SessionClient(address) as client:
        yield await _in_session(client), await _in_session(client)


async def _in_session(client: web.SessionClient) -> Post:
    session = await client.open()

    async def post(message: bytes) -> dict[str, Any]:
        response = await client.post(message, session=session)
        assert len(response.content) < LONGEST_ANSWER
        *_, data = response.text.strip().removeprefix("data: ").split("\ndata: ")
        answer: dict[str, Any] = json.loads(data)
        return answer

    return post


async def cost(post: Post, hostile: bytes, neighbour: Post) -> float:
    """CPU seconds of one message, beside which the neighbour is answered, as is its sender."""
    answers: list[Any] = []

    async def send() -> None:
        answers.append(await post(hostile))

    before = time.process_time()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            answer = await neighbour(NEIGHBOUR)
    assert "told:plain" in answer["result"]["content"][0]["text"]
    assert len(json.dumps(answers)) < LONGEST_ANSWER
    return time.process_time() - before


@pytest.mark.chaos
@pytest.mark.requirement("THR-12")
@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_nothing_that_one_client_sends_holds_up_another(
    transport: Callable[[Engine], Any], tmp_path: Path
) -> None:
    async with opened(tmp_path) as engine, transport(engine) as (bad, neighbour):
        plain = max([await cost(bad, PLAIN, neighbour) for _ in range(3)])
        for tool in TOOLS:
            texts = {kind: of_text(tool, text) for kind, text in TEXTS.items()}
            values = {kind: of_value(tool, value) for kind, value in VALUES.items()}
            for kind, hostile in (texts | values).items():
                # What a tool makes of it is the same over HTTP, where one place is tried.
                for arguments in hostile if transport is over_stdio else hostile[-1:]:
                    took = await cost(bad, message(tool, arguments), neighbour)
                    bound = AS_MUCH_OF_ELEMENTS if kind == "many elements" else AS_MUCH
                    assert took < bound * plain, (tool, kind)


@pytest.mark.requirement("THR-12")
async def test_input_beyond_a_limit_is_refused_and_not_repeated(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine, over_stdio(engine) as (ask, _):
        for name, arguments in TOO_LONG:
            result = (await ask(message(name, arguments)))["result"]
            assert result["isError"], arguments
            assert "INPUT_TOO_LONG" in json.dumps(result), arguments
            assert "n" * 50 not in json.dumps(result)
        longest = {"query": "q " * 4096, "tags": ["t" * 256] * 64}
        assert not (await ask(message("search_tools", longest)))["result"].get("isError")


@pytest.mark.requirement("THR-12")
@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_a_message_of_too_many_parts_is_refused_before_it_is_parsed(
    transport: Callable[[Engine], Any], tmp_path: Path
) -> None:
    whole = message("execute_tool", {})
    endless = [whole.replace(b'"arguments": {}', b'"arguments": ' + one[:-200]) for one in BRACKETS]
    many = [message("execute_tool", {"tool": "x", "arguments": {"x": VALUES["many keys"]}})]
    code = {"text": json.dumps(["}{:[]" * 10, '\\"{[:'] * 2_000) * 4, "rows": [[0]] * 20_000}

    async with opened(tmp_path) as engine, transport(engine) as (ask, _):
        answers = [await ask(hostile) for hostile in (*many, *endless)]
        usual = await ask(message("execute_tool", {"tool": "told:plain", "arguments": code}))

    assert [answer["error"]["code"] for answer in answers] == [-32602] * 3
    refusal = "INPUT_TOO_LONG: the message has more than 50,000"
    assert answers[0]["error"]["message"].startswith(refusal)
    assert not usual["result"].get("isError")
