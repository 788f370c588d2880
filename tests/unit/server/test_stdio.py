from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel import Server

from discovery_server import stdio
from tests.unit.server.wire import INITIALIZE, INITIALIZED, MODERN, PROBE, request, served

pytestmark = pytest.mark.anyio

CallTool = Callable[[Any, types.CallToolRequestParams], Awaitable[types.CallToolResult]]


def make_echo(call: CallTool | None = None) -> Server[Any]:
    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[], ttl_ms=0, cache_scope="private")

    async def echo(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = (params.arguments or {})["text"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("echo", on_list_tools=list_tools, on_call_tool=call or echo)


@pytest.mark.requirement("SRV-1")
async def test_probe_opens_the_modern_era() -> None:
    async with served(make_echo()) as wire:
        discovered = await wire.ask(PROBE)
        listed = await wire.ask(request(2, "tools/list", _meta=MODERN))

    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert listed["result"]["resultType"] == "complete"


@pytest.mark.requirement("SRV-1")
async def test_initialize_opens_the_handshake_era() -> None:
    async with served(make_echo()) as wire:
        initialized = await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        listed = await wire.ask(request(3, "tools/list"))

    assert initialized["result"]["protocolVersion"] == "2025-11-25"
    assert listed["result"] == {"tools": []}


@pytest.mark.requirement("SRV-7")
async def test_initialize_right_behind_a_probe_turns_the_probe_down() -> None:
    async with served(make_echo()) as wire:
        await wire.send(PROBE, INITIALIZE, INITIALIZED)
        refused, initialized = await wire.receive(), await wire.receive()
        listed = await wire.ask(request(3, "tools/list"))

    assert (refused["id"], refused["error"]["code"]) == (1, -32601)
    assert initialized["result"]["protocolVersion"] == "2025-11-25"
    assert listed["result"] == {"tools": []}


@pytest.mark.requirement("SRV-7")
async def test_initialize_after_an_answered_probe_is_served() -> None:
    async with served(make_echo()) as wire:
        await wire.ask(PROBE)
        initialized = await wire.ask(INITIALIZE)

    assert initialized["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("SRV-7")
async def test_initialize_waits_for_the_answer_of_a_probe_under_way() -> None:
    server = make_echo()
    probed, release = anyio.Event(), anyio.Event()

    async def discover(_: Any, __: Any) -> types.DiscoverResult:
        probed.set()
        await release.wait()
        capabilities = types.ServerCapabilities()
        return types.DiscoverResult(supported_versions=["2026-07-28"], capabilities=capabilities)

    server.add_request_handler("server/discover", types.RequestParams, discover)
    async with served(server) as wire:
        await wire.send(PROBE)
        await probed.wait()
        await wire.send(INITIALIZE)
        release.set()
        answers = [await wire.receive(), await wire.receive()]

    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"


async def test_initialize_in_a_modern_connection_stays_an_error() -> None:
    async with served(make_echo()) as wire:
        await wire.ask(PROBE)
        await wire.ask(request(5, "tools/list", _meta=MODERN))
        refused = await wire.ask(INITIALIZE)

    assert refused["error"]["code"] == -32022


@pytest.mark.requirement("SRV-8")
async def test_line_that_is_no_message_is_skipped() -> None:
    async with served(make_echo()) as wire:
        await wire.send(b"", b"no json", b"[]", b"\xff\xfe")
        initialized = await wire.ask(INITIALIZE)

    assert initialized["id"] == 2


@pytest.mark.requirement("SRV-8")
async def test_large_messages_pass_in_both_directions() -> None:
    text = "x" * (4 << 20)
    async with served(make_echo()) as wire:
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        answer = await wire.ask(request(3, "tools/call", name="echo", arguments={"text": text}))

    assert answer["result"]["content"][0]["text"] == text


@pytest.mark.requirement("SRV-8")
async def test_line_that_is_too_long_is_skipped() -> None:
    stdin, to_server = os.pipe()
    os.write(to_server, b"a" * 50 + b"\nshort\n" + b"b" * 11 + b"\nlast\nunfinished")
    os.close(to_server)

    lines = [line async for line in stdio._lines(stdin, max_length=10)]

    os.close(stdin)
    assert lines == [b"short", b"last"]


async def test_input_from_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_bytes(b"one\ntwo\n")
    descriptor = os.open(path, os.O_RDONLY)

    lines = [line async for line in stdio._lines(descriptor)]

    os.close(descriptor)
    assert lines == [b"one", b"two"]


@pytest.mark.requirement("SRV-9")
async def test_closed_input_ends_serving() -> None:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    os.close(to_server)

    with anyio.fail_after(20):
        await stdio.serve(make_echo(), stdin, stdout)

    for descriptor in (stdin, stdout, from_server):
        os.close(descriptor)


async def test_client_that_stops_reading_ends_serving() -> None:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    os.close(from_server)
    os.write(to_server, json.dumps(INITIALIZE).encode() + b"\n")

    with anyio.fail_after(20):
        await stdio.serve(make_echo(), stdin, stdout)

    for descriptor in (stdin, stdout, to_server):
        os.close(descriptor)


@pytest.mark.requirement("MET-21")
async def test_cancelled_request_is_cancelled_in_its_handler() -> None:
    entered, left = anyio.Event(), anyio.Event()

    async def hang(_: Any, __: Any) -> types.CallToolResult:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()

    async with served(make_echo(hang)) as wire:
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED, request(3, "tools/call", name="hang"))
        await entered.wait()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 3}}
        await wire.send({"jsonrpc": "2.0", **cancel})
        await left.wait()


@pytest.mark.requirement("SRV-2")
async def test_first_answer_is_told_when_it_is_out() -> None:
    async with served(make_echo()) as wire:
        before = wire.answered.is_set()
        await wire.ask(INITIALIZE)
        await wire.answered.wait()

    assert not before


@pytest.mark.requirement("SRV-6")
async def test_only_messages_reach_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    with stdio.own_standard_streams() as (stdin, stdout):
        os.write(1, b"stray")
        os.write(stdout, b"message")
        handed_to_children = os.read(0, 10)
        assert stdin > 2
    os.write(1, b" and after")

    captured = capfd.readouterr()
    assert captured.out == "message and after"
    assert captured.err == "stray"
    assert handed_to_children == b""
