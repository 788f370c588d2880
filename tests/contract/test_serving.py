"""Clients of each revision over stdio, and lines that no client sends."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from discovery_server import stdio
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.servers.programs import eventually
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.wire import (
    HANDSHAKE,
    INITIALIZE,
    INITIALIZED,
    MODERN,
    PROBE,
    Wire,
    call,
    request,
    served,
)

pytestmark = pytest.mark.anyio

TOOLS = {"search_tools", "execute_tool", "read_result"}


async def open_handshake(wire: Wire) -> None:
    await wire.ask(INITIALIZE)
    await wire.send(INITIALIZED)


@pytest.mark.requirement("SRV-1")
@rows("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_client_that_shakes_hands_is_served_in_the_revision_that_it_asks_for(
    version: str,
) -> None:
    async with served(Gateway(make_engine())) as wire:
        opening = HANDSHAKE | {"protocolVersion": version}
        greeting = await wire.ask(request(1, "initialize", **opening))
        await wire.send(INITIALIZED)
        listed = await wire.ask(request(2, "tools/list"))
        found = await wire.ask(call(3, "search_tools", query="issue"))

    assert greeting["result"]["protocolVersion"] == version
    assert {tool["name"] for tool in listed["result"]["tools"]} >= TOOLS
    assert "github:list_issues" in json.dumps(found["result"])
    assert "resultType" not in {**listed["result"], **found["result"]}


@pytest.mark.requirement("SRV-1")
async def test_a_client_that_does_not_shake_hands_is_served_in_the_new_revision() -> None:
    async with served(Gateway(make_engine())) as wire:
        listed = await wire.ask(request(2, "tools/list", _meta=MODERN))
        found = await wire.ask(call(3, "search_tools", era="modern", query="issue"))

    assert {tool["name"] for tool in listed["result"]["tools"]} >= TOOLS
    assert "github:list_issues" in json.dumps(found["result"])
    assert {listed["result"]["resultType"], found["result"]["resultType"]} == {"complete"}


@pytest.mark.requirement("SRV-1")
async def test_a_client_that_probes_may_shake_hands_after_the_answer_or_before_it() -> None:
    async with served(Gateway(make_engine())) as wire:
        probed = await wire.ask(PROBE)
        after = await wire.ask(INITIALIZE)
    async with served(Gateway(make_engine())) as wire:
        await wire.send(PROBE, INITIALIZE)
        refused, before = await wire.receive(), await wire.receive()

    assert probed["result"]["supportedVersions"] == ["2026-07-28"]
    assert (refused["id"], refused["error"]["code"]) == (PROBE["id"], -32601)
    for greeting in (before, after):
        assert greeting["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("SRV-8")
@rows(
    ("line", "code", "identity"),
    [
        (b"no json", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"jsonrpc": "2.0"', -32700, None),
        (b"NaN", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        (b"5", -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', -32600, 7),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else None,
)
async def test_a_line_that_is_no_message_is_answered_with_an_error_and_the_next_one_is_served(
    line: bytes, code: int, identity: int | None
) -> None:
    async with served(Gateway(make_engine())) as wire:
        await wire.send(line)
        refused = await wire.receive()
        skipped = {"jsonrpc": "2.0", "id": 1, "result": {}}  # an answer that nobody waits for
        await wire.send(b" \r", skipped)
        initialized = await wire.ask(INITIALIZE)

    assert (refused["id"], refused["error"]["code"]) == (identity, code)
    assert initialized["id"] == INITIALIZE["id"]


@pytest.mark.requirement("SRV-8")
@rows("is_id_last", [False, True])
async def test_a_line_that_is_too_long_is_answered_under_its_id(
    monkeypatch: pytest.MonkeyPatch, *, is_id_last: bool
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 1 << 20)
    members = {"id": 8, "params": {"x": "x" * (3 << 20)}}
    if is_id_last:
        members = dict(reversed(members.items()))
    async with served(Gateway(make_engine())) as wire:
        refused = await wire.ask({"jsonrpc": "2.0", **members})
        initialized = await wire.ask(INITIALIZE)

    assert (refused["id"], refused["error"]["code"]) == (8, -32600)
    assert initialized["id"] == INITIALIZE["id"]


@pytest.mark.requirement("SRV-8")
async def test_strange_and_deeply_nested_arguments_are_answered() -> None:
    nested = b'{"a":' * 2000 + b"5" + b"}" * 2000
    line = json.dumps(call(4, "execute_tool", tool="list_issues", arguments="NESTED")).encode()
    async with served(Gateway(make_engine())) as wire:
        await open_handshake(wire)
        surrogate = await wire.ask(call(3, "search_tools", query="\ud800 issue"))
        await wire.send(line.replace(b'"NESTED"', nested))
        deep = await wire.receive()
        pong = await wire.ask(request(5, "ping"))

    assert "result" in surrogate
    assert deep["id"] in (4, None)
    assert pong["id"] == 5


@pytest.mark.requirement("SRV-45")
async def test_of_many_calls_256_are_worked_on_at_once_and_others_are_not_delayed() -> None:
    async def hang(_: Call) -> Any:
        await anyio.sleep_forever()

    engine = make_engine(execution=hang)
    calls = [call(number, "execute_tool", tool="list_issues") for number in range(3, 303)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    async with served(Gateway(engine)) as wire:
        await open_handshake(wire)
        await wire.send(*calls)
        pong = await wire.ask(request(9999, "ping"))
        await eventually(lambda: len(engine.calls) == 256)
        await wire.send(cancel)
        await eventually(lambda: len(engine.calls) == 257)
        wire.hang_up()
        ended = [await wire.receive() for _ in range(299)]

    assert pong["id"] == 9999
    assert {answer["error"]["code"] for answer in ended} == {-32000}


@pytest.mark.requirement("SRV-45")
async def test_nothing_more_is_read_from_a_client_that_does_not_read() -> None:
    engine = make_engine(result={"content": [{"type": "text", "text": "x" * 5_000}]})
    calls = [call(number, "execute_tool", tool="list_issues") for number in range(3_000)]
    async with served(Gateway(engine)) as wire:
        await open_handshake(wire)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.send, *calls)
            await eventually(lambda: len(engine.calls) > 200)  # 1 MiB of answers
            for _ in range(500):  # turns of the event loop, in which it could do all
                await anyio.lowlevel.checkpoint()
            done = len(engine.calls)
            answers = [await wire.receive() for _ in calls]

    assert done < 1_500
    assert sorted(answer["id"] for answer in answers) == list(range(3_000))
