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

from discovery_engine._util.json import JSONObject
from discovery_engine.engine import Engine
from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server import web
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call, served
from tests.unit.tools.validation.test_evaluation import chain, tree

pytestmark = pytest.mark.anyio

SIZE = (4 << 20) - 4096  # bytes: what fits into a message over HTTP
LONGEST_ANSWER = 16_384  # bytes
INVALID_PARAMS = -32602
AS_MUCH = 150
"""Times the CPU of a text that nobody has to understand. Nested values took 300 times as much and
more before they were refused."""
AS_MUCH_OF_ELEMENTS = 1000
"""Elements are accepted and parsed: on a busy machine they take 200 times as much."""


def message(tool: str, arguments: JSONObject) -> bytes:
    return json.dumps(call(8, tool, **arguments), ensure_ascii=False).encode()


PLAIN = message("execute_tool", {"tool": "none", "arguments": {"text": "x" * SIZE}})
NEIGHBOUR = message("search_tools", {"query": "do plain things"})

Post: TypeAlias = Callable[[bytes], Awaitable[JSONObject]]

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
    "many keys": {f"key_{n:025}": None for n in range(100_000)},
    "many elements": ["x"] * (SIZE // 5),
    "nested": [json.loads("[" * 150 + "]" * 150)] * (SIZE // 304),
    "nested objects": [json.loads('{"a":' * 60 + "1" + "}" * 60)] * (SIZE // 540),
}
BRACKETS = {"arrays": b"[" * SIZE, "objects": b'{"a":' * (SIZE // 5)}
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

    async def post(message: bytes) -> JSONObject:
        response = await client.post(message, session=session)
        assert response.status_code == 200
        *_, data = response.text.strip().removeprefix("data: ").split("\ndata: ")
        answer: JSONObject = json.loads(data)
        return answer

    return post


async def cost(post: Post, hostile: bytes, neighbour: Post) -> float:
    """CPU seconds of one message, beside which the neighbour is answered, as is its sender."""
    answers: list[JSONObject] = []

    async def send() -> None:
        answers.append(await post(hostile))

    before = time.process_time()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            require_found(await neighbour(NEIGHBOUR))
    assert len(json.dumps(answers)) < LONGEST_ANSWER
    return time.process_time() - before


async def cost_alone(post: Post, hostile: Awaitable[object]) -> float:
    """The same where nobody else can be: the client's next call is answered."""
    before = time.process_time()
    with anyio.fail_after(60):
        await hostile
        require_found(await post(NEIGHBOUR))
    return time.process_time() - before


def require_found(answer: JSONObject) -> None:
    assert "told:plain" in answer["result"]["content"][0]["text"]


@pytest.mark.requirement("THR-12")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_nothing_that_one_client_sends_holds_up_another(
    transport: Callable[[Engine], Any], tool: str, tmp_path: Path
) -> None:
    async with gateway(tmp_path) as engine, transport(engine) as (bad, neighbour):
        plain = max([await cost(bad, PLAIN, neighbour) for _ in range(3)])
        texts = {kind: of_text(tool, text) for kind, text in TEXTS.items()}
        values = {kind: of_value(tool, value) for kind, value in VALUES.items()}
        for kind, hostile in (texts | values).items():
            # What a tool makes of it is the same over HTTP, where one place is tried.
            for arguments in hostile if transport is over_stdio else hostile[-1:]:
                took = await cost(bad, message(tool, arguments), neighbour)
                bound = AS_MUCH_OF_ELEMENTS if kind == "many elements" else AS_MUCH
                assert took < bound * plain, kind


@pytest.mark.requirement("THR-13")
@pytest.mark.parametrize("kind", BRACKETS)
async def test_what_is_nested_without_end_holds_up_no_next_call_on_stdio(
    kind: str, tmp_path: Path
) -> None:
    async with gateway(tmp_path) as engine, served(Gateway(engine)) as wire:
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        plain = max([await cost_alone(wire.ask, wire.ask(PLAIN)) for _ in range(3)])

        async def send(message: bytes) -> None:
            assert (await wire.ask(message))["error"]["code"] == INVALID_PARAMS

        for tool in TOOLS:
            hostile = send(cut_off(tool, BRACKETS[kind]))
            assert await cost_alone(wire.ask, hostile) < AS_MUCH * plain


@pytest.mark.requirement("THR-13")
@pytest.mark.parametrize("kind", BRACKETS)
async def test_what_is_nested_without_end_holds_up_no_neighbour_over_http(
    kind: str, tmp_path: Path
) -> None:
    async with (
        gateway(tmp_path) as engine,
        web.served(engine) as address,
        web.SessionClient(address) as client,
    ):
        session, neighbour = await client.open(), await _in_session(client)
        plain = max([await cost_alone(neighbour, neighbour(PLAIN)) for _ in range(3)])

        async def send(body: bytes) -> None:
            answer = await client.post(body, session=session)
            assert answer.json()["error"]["code"] == INVALID_PARAMS
            assert len(answer.content) < LONGEST_ANSWER

        for tool in TOOLS:
            hostile = send(cut_off(tool, BRACKETS[kind]))
            assert await cost_alone(neighbour, hostile) < AS_MUCH * plain


@pytest.mark.requirement("THR-13")
@pytest.mark.parametrize("transport", [over_stdio, over_http])
@pytest.mark.parametrize("kind", ["many keys", "nested", "nested objects"])
async def test_a_message_of_too_many_parts_is_refused_in_words(
    transport: Callable[[Engine], Any], kind: str, tmp_path: Path
) -> None:
    arguments = {"tool": "told:plain", "arguments": {"x": VALUES[kind]}}

    async with gateway(tmp_path) as engine, transport(engine) as (bad, _):
        answer = await bad(message("execute_tool", arguments))

    assert answer["id"] == 8
    assert answer["error"]["message"].startswith("INPUT_TOO_LONG: the message has more than 50,000")


@pytest.mark.requirement("THR-13")
@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_brackets_and_colons_of_a_text_are_no_parts_of_a_message(
    transport: Callable[[Engine], Any], tmp_path: Path
) -> None:
    code = json.dumps(["}{:[]" * 10, '\\"{[:'] * 2_000) * 4
    arguments = {"tool": "told:plain", "arguments": {"text": code, "rows": [[0]] * 20_000}}

    async with gateway(tmp_path) as engine, transport(engine) as (good, _):
        answer = await good(message("execute_tool", arguments))

    assert "isError" not in answer["result"] or not answer["result"]["isError"]


def cut_off(tool: str, brackets: bytes) -> bytes:
    whole = message(tool, {})
    return whole.replace(b'"arguments": {}', b'"arguments": ' + brackets[: SIZE - 200])
