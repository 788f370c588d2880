from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serve_settings import ServeSettings
from discovery_server import descriptors, stdio
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.servers.programs import eventually
from tests.unit.server.fakes import ISSUES, Call, FakeEngine, make_engine, make_view
from tests.unit.server.wire import (
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

LISTS = request(3, "tools/list")


def make_gateway(**engine: object) -> Gateway:
    return Gateway(make_engine(**engine))


async def open_handshake(wire: Wire) -> None:
    await wire.ask(INITIALIZE)
    await wire.send(INITIALIZED)


@pytest.mark.requirement("SRV-1")
async def test_probe_opens_the_modern_era() -> None:
    async with served(make_gateway()) as wire:
        discovered = await wire.ask(PROBE)
        listed = await wire.ask(request(2, "tools/list", _meta=MODERN))

    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert listed["result"]["resultType"] == "complete"


@pytest.mark.requirement("SRV-1")
async def test_initialize_opens_the_handshake_era() -> None:
    async with served(make_gateway()) as wire:
        initialized = await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        listed = await wire.ask(request(3, "tools/list"))

    assert initialized["result"]["protocolVersion"] == "2025-11-25"
    assert "resultType" not in listed["result"]


@pytest.mark.requirement("SRV-7")
async def test_initialize_right_behind_a_probe_turns_the_probe_down() -> None:
    async with served(make_gateway()) as wire:
        await wire.send(PROBE, INITIALIZE, INITIALIZED)
        refused, initialized = await wire.receive(), await wire.receive()
        listed = await wire.ask(request(3, "tools/list"))

    assert (refused["id"], refused["error"]["code"]) == (1, -32601)
    assert initialized["result"]["protocolVersion"] == "2025-11-25"
    assert "resultType" not in listed["result"]


@pytest.mark.requirement("SRV-7")
async def test_initialize_after_an_answered_probe_is_served() -> None:
    async with served(make_gateway()) as wire:
        await wire.ask(PROBE)
        initialized = await wire.ask(INITIALIZE)

    assert initialized["result"]["protocolVersion"] == "2025-11-25"


async def test_initialize_in_a_modern_connection_stays_an_error() -> None:
    async with served(make_gateway()) as wire:
        await wire.ask(PROBE)
        await wire.ask(request(5, "tools/list", _meta=MODERN))
        refused = await wire.ask(INITIALIZE)

    assert refused["error"]["code"] == -32022


@pytest.mark.requirement("SRV-8")
@rows(
    ("line", "code"),
    [
        pytest.param(b"no json", -32700, id="words"),
        pytest.param(b"\xff\xfe", -32700, id="bytes"),
        pytest.param(b'{"jsonrpc": "2.0"', -32700, id="half a message"),
        pytest.param(b"NaN", -32700, id="not a number"),
        pytest.param(b"[" * 100_000, -32700, id="nested too deeply"),
        pytest.param(b"[]", -32600, id="empty batch"),
        pytest.param(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, id="batch"),
        pytest.param(b"5", -32600, id="number"),
        pytest.param(b"{}", -32600, id="empty object"),
        pytest.param(b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, id="null id"),
        pytest.param(b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, id="half an id"),
        pytest.param(b'{"jsonrpc": "2.0", "method": 5}', -32600, id="method that is no text"),
    ],
)
async def test_line_that_is_no_message_is_answered_with_an_error_and_the_next_one_is_served(
    line: bytes, code: int
) -> None:
    async with served(make_gateway()) as wire:
        await wire.send(line)
        refused = await wire.receive()
        initialized = await wire.ask(INITIALIZE)

    assert (refused["id"], refused["error"]["code"]) == (None, code)
    assert initialized["id"] == 2


@pytest.mark.requirement("SRV-8")
@rows(
    "wrong",
    [{"jsonrpc": "1.0"}, {"method": 5}, {"params": []}],
    ids=["another version", "method that is no text", "params that are no object"],
)
async def test_invalid_request_that_shows_its_id_is_answered_under_that_id(
    wrong: JSONObject,
) -> None:
    async with served(make_gateway()) as wire:
        refused = await wire.ask(request(7, "ping") | wrong)

    assert (refused["id"], refused["error"]["code"]) == (7, -32600)


@pytest.mark.requirement("SRV-8")
async def test_blank_lines_and_unexpected_answers_are_skipped() -> None:
    answers = [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": {}}]
    async with served(make_gateway()) as wire:
        await wire.send(b"", b" \r", *answers)
        initialized = await wire.ask(INITIALIZE)

    assert initialized["id"] == 2


@pytest.mark.requirement("SRV-8")
async def test_text_with_a_lone_surrogate_is_served() -> None:
    line = json.dumps(call(4, "search_tools", query="\ud800 issue")).encode()
    async with served(make_gateway()) as wire:
        await open_handshake(wire)
        await wire.send(line)
        answer = await wire.receive()

    assert answer["id"] == 4
    assert "result" in answer


@pytest.mark.requirement("SRV-8")
async def test_large_messages_pass_in_both_directions() -> None:
    async def echo(call: Call) -> JSONObject:
        return {"content": [{"type": "text", "text": call.arguments["text"]}]}

    text = "x" * (4 << 20)
    arguments = {"tool": "list_issues", "arguments": {"text": text}}
    whole = make_view(ISSUES, server=ServeSettings(max_result_tokens=0))
    async with served(Gateway(FakeEngine(whole, execution=echo))) as wire:  # type: ignore[arg-type]
        await open_handshake(wire)
        answer = await wire.ask(call(3, "execute_tool", **arguments))

    assert answer["result"]["content"][0]["text"] == text


@pytest.mark.requirement("SRV-8")
@rows("is_id_last", [False, True])
async def test_line_that_is_too_long_is_answered_under_its_id(
    monkeypatch: pytest.MonkeyPatch, *, is_id_last: bool
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 1 << 20)
    long = json.dumps({"params": {"x": "x" * (3 << 20)}, "jsonrpc": "2.0", "id": 8})
    if not is_id_last:
        long = json.dumps({"jsonrpc": "2.0", "id": 8, "params": {"x": "x" * (3 << 20)}})
    async with served(make_gateway()) as wire:
        await wire.send(long.encode())
        refused = await wire.receive()
        initialized = await wire.ask(INITIALIZE)

    assert (refused["id"], refused["error"]["code"]) == (8, -32600)
    assert initialized["id"] == 2


async def test_requests_are_read_from_a_file_and_answers_written_to_one(tmp_path: Path) -> None:
    lines = [json.dumps(one).encode() for one in (INITIALIZE, INITIALIZED, LISTS)]
    (tmp_path / "requests").write_bytes(b"\n".join(lines))
    stdin = os.open(tmp_path / "requests", os.O_RDONLY)
    stdout = os.open(tmp_path / "answers", os.O_WRONLY | os.O_CREAT)

    with anyio.fail_after(60):
        await stdio.serve(make_gateway(), stdin, stdout)

    os.close(stdin)
    os.close(stdout)
    answers = (tmp_path / "answers").read_bytes().splitlines()
    assert [json.loads(answer)["id"] for answer in answers] == [2, 3]


async def test_input_that_another_process_has_read_first_has_not_ended() -> None:
    read: list[bytes] = []
    stdin, to_server = os.pipe()
    os.set_blocking(stdin, False)

    descriptors.WatchedInput(stdin, read.append)._read()

    os.close(to_server)
    os.close(stdin)
    assert read == []


async def test_input_that_is_empty_from_the_start_ends_serving() -> None:
    stdin, stdout = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)

    with anyio.fail_after(60):
        await stdio.serve(make_gateway(), stdin, stdout)

    os.close(stdin)
    os.close(stdout)


async def test_without_poll_threads_read_and_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_HAS_POLL", False)
    async with served(make_gateway()) as wire:
        initialized = await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        listed = await wire.ask(LISTS)
        wire.hang_up()

    assert (initialized["id"], listed["id"]) == (2, 3)


@pytest.mark.requirement("SRV-9")
async def test_closed_input_ends_serving() -> None:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    os.close(to_server)

    with anyio.fail_after(60):
        await stdio.serve(make_gateway(), stdin, stdout)

    for descriptor in (stdin, stdout, from_server):
        os.close(descriptor)


async def test_client_that_stops_reading_ends_serving() -> None:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    os.close(from_server)
    os.write(to_server, json.dumps(INITIALIZE).encode() + b"\n")

    with anyio.fail_after(60):
        await stdio.serve(make_gateway(), stdin, stdout)

    for descriptor in (stdin, stdout, to_server):
        os.close(descriptor)


@pytest.mark.requirement("MET-21")
async def test_cancelled_request_is_cancelled_in_its_handler_and_never_answered() -> None:
    entered, left = anyio.Event(), anyio.Event()

    async def hang(_: Call) -> JSONObject:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        return {}

    async with served(make_gateway(execution=hang)) as wire:
        await open_handshake(wire)
        await wire.send(call(3, "execute_tool", tool="list_issues"))
        await entered.wait()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 3}}
        await wire.send({"jsonrpc": "2.0", **cancel})
        await left.wait()
        next_answer = await wire.ask(request(4, "ping"))

    assert next_answer["id"] == 4


@pytest.mark.requirement("SRV-2")
async def test_first_answer_is_told_when_it_is_out() -> None:
    async with served(make_gateway()) as wire:
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


@pytest.mark.thorough
@pytest.mark.requirement("SRV-45")
async def test_a_client_that_does_not_read_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    original = descriptors.Output.write

    def count(output: descriptors.Output, line: bytes) -> None:
        nonlocal written
        written += len(line)
        original(output, line)

    monkeypatch.setattr(descriptors.Output, "write", count)
    requests = [request(number, "tools/list") for number in range(3000)]
    async with served(make_gateway()) as wire:
        await open_handshake(wire)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.send, *requests)
            await eventually(lambda: written > 1 << 20)
            for _ in range(100):  # turns of the event loop, in which it could write more
                await anyio.lowlevel.checkpoint()
            unread = written
            answers = [await wire.receive() for _ in requests]

    assert [answer["id"] for answer in answers] == list(range(3000))
    assert unread < 2 << 20
    assert written > 4 << 20


@pytest.mark.requirement("SRV-45")
async def test_of_many_calls_256_are_worked_on_at_once_and_others_are_not_delayed() -> None:
    async def hang(_: Call) -> JSONObject:
        await anyio.sleep_forever()
        return {}

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


@rows("depth", [900, 970, 980, 985, 990, 995])
async def test_a_result_that_nests_deeply_is_answered(depth: int) -> None:
    nested: JSONObject = {}
    for _ in range(depth):
        nested = {"a": nested}

    async def work(_: Call) -> JSONObject:
        return {"content": [], "structuredContent": nested}

    async with served(make_gateway(execution=work)) as wire:
        await open_handshake(wire)
        answer = await wire.ask(call(3, "execute_tool", tool="list_issues"))

    assert answer["id"] == 3
    assert ("result" in answer) != ("error" in answer)


@rows("depth", [100, 900, 980, 990, 2000])
async def test_arguments_that_nest_deeply_are_answered(depth: int) -> None:
    line = json.dumps(call(3, "execute_tool", tool="list_issues", arguments="NESTED")).encode()
    async with served(make_gateway()) as wire:
        await open_handshake(wire)
        await wire.send(line.replace(b'"NESTED"', b'{"a":' * depth + b"5" + b"}" * depth))
        answer = await wire.receive()
        pong = await wire.ask(request(4, "ping"))

    assert answer["id"] in (3, None)
    assert pong["id"] == 4
