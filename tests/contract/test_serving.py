"""Clients of each revision over stdio, and lines that no client sends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_server.gateway import Gateway
from tests.contract.test_modes import Session
from tests.engines import Folder
from tests.hostile import DEFINITIONS, RESOURCES, RESULTS, SAID, hostile
from tests.protocol_schemas import VERSIONS, faults_of
from tests.rows import rows
from tests.servers.programs import eventually
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.oracle import ours, sdks
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


async def open_handshake(wire: Wire) -> None:
    await wire.ask(INITIALIZE)
    await wire.send(INITIALIZED)


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
async def test_a_line_beyond_64_mib_is_answered_under_its_id_wherever_that_stands() -> None:
    long = b'"params":{"x":"' + b"x" * (64 << 20) + b'"}'
    async with served(Gateway(make_engine())) as wire:
        for members in (b'"id":8,' + long, long + b',"id":8'):
            await wire.send(b'{"jsonrpc":"2.0","method":"ping",' + members + b"}")
            refused = await wire.receive()
            assert (refused["id"], refused["error"]["code"]) == (8, -32600)
        initialized = await wire.ask(INITIALIZE)

    assert initialized["id"] == INITIALIZE["id"]


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


ENVELOPE: dict[str, Any] = {
    **MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1", "title": "T"},
    "progressToken": 7,
}
OPENED = [INITIALIZE, INITIALIZED]
REQUESTS: list[dict[str, Any]] = [
    request(3, "tools/list"),
    request(4, "tools/list", cursor="x"),
    request(5, "prompts/list"),
    request(6, "prompts/get", name="mcp-discovery-usage-guide"),
    request(7, "prompts/get", name="other"),
    request(8, "prompts/get", name="mcp-discovery-usage-guide", arguments={"a": "b"}),
    request(9, "resources/list"),
    request(10, "resources/templates/list"),
    request(11, "resources/read", uri="discovery://docs/usage-guide"),
    request(12, "resources/read", uri="discovery://docs/none"),
    request(13, "resources/read", uri="discovery://servers/github/info"),
    call(14, "search_tools", query="issue"),
    call(15, "list_mcp_servers"),
    call(16, "execute_tool", tool="github:list_issues"),
    call(17, "create_issue"),
    request(18, "tools/call", name="list_mcp_servers", arguments=None),
    request(19, "tools/call", name="list_mcp_servers"),
    request(20, "ping"),
    request(21, "tools/unknown"),
    request(22, "server/discover"),
    request(23, "initialize", **HANDSHAKE),
    request("text", "tools/list"),
    request("24", "tools/list"),
    request(-1, "tools/list"),
    request(2**70, "tools/list"),
    request(25, "tools/call"),
    request(26, "tools/call", name=5),
    request(27, "tools/call", name="search_tools", arguments=[]),
    request(28, "prompts/get", name="x", arguments={"a": 5}),
    request(29, "resources/read"),
    request(30, "tools/list", cursor=5),
]


def with_envelope(message: dict[str, Any], envelope: Any = ENVELOPE) -> dict[str, Any]:
    return message | {"params": message.get("params", {}) | {"_meta": envelope}}


def without_texts(answers: list[list[dict[str, Any]]]) -> Any:
    """Answers without the messages of errors, which are our own, and data that is only an echo."""
    return [[_plain(answer) for answer in step] for step in answers]


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" not in answer:
        result = answer.get("result", {})
        if "protocolVersion" in result:  # the SDK declares no extensions in the handshake
            rest = {k: v for k, v in result["capabilities"].items() if k != "extensions"}
            return answer | {"result": result | {"capabilities": rest}}
        return answer
    data = answer["error"].get("data")
    kept = {"data": data} if isinstance(data, dict) else {}
    return answer | {"error": {"code": answer["error"]["code"], **kept}}


@pytest.mark.requirement("SRV-1")
@rows("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_all_requests_of_the_handshake_era_are_answered_as_by_the_sdk(version: str) -> None:
    initialize = request(2, "initialize", **HANDSHAKE | {"protocolVersion": version})
    messages = [initialize, INITIALIZED, *REQUESTS]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


@pytest.mark.requirement("SRV-1")
async def test_all_requests_of_2026_07_28_are_answered_as_by_the_sdk() -> None:
    messages = [PROBE, *map(with_envelope, REQUESTS)]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


SEQUENCES: dict[str, list[Any]] = {
    "requests before initialize": [*REQUESTS[:3], request(3, "ping"), *OPENED, *REQUESTS[:3]],
    "initialized without initialize": [INITIALIZED, *REQUESTS[:3]],
    "initialized is enough": [request(1, "ping"), INITIALIZED, *REQUESTS[:3]],
    "no initialized": [INITIALIZE, *REQUESTS[:3]],
    "initialize twice": [
        *OPENED,
        request(3, "initialize", **HANDSHAKE | {"protocolVersion": "2024-11-05"}),
        *REQUESTS[:3],
    ],
    "unknown version": [request(1, "initialize", **HANDSHAKE | {"protocolVersion": "1999-01-01"})],
    "modern version in the handshake": [
        request(1, "initialize", **HANDSHAKE | {"protocolVersion": "2026-07-28"}),
        request(2, "tools/list"),
    ],
    "version that is no text": [
        with_envelope(REQUESTS[0], ENVELOPE | {"io.modelcontextprotocol/protocolVersion": 5})
    ],
    "envelope on initialize": [with_envelope(INITIALIZE), request(3, "tools/list")],
    "envelope after the handshake": [*OPENED, *map(with_envelope, REQUESTS[:3])],
    "no envelope after a modern request": [with_envelope(REQUESTS[0]), *REQUESTS[:3]],
    "initialize after a modern request": [
        with_envelope(REQUESTS[0]),
        INITIALIZE,
        request(3, "initialize"),
        request(4, "initialize", protocolVersion=5),
    ],
    "probe without an envelope": [request(1, "server/discover"), *OPENED, *REQUESTS[:3]],
    "initialize without params": [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}],
    "cancelled before it came": [
        *OPENED,
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}},
        REQUESTS[0],
    ],
    "notifications of all kinds": [
        *OPENED,
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 3}},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/unknown", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
    ],
}


@pytest.mark.requirement("SRV-1")
@rows("name", SEQUENCES)
async def test_sequences_are_answered_as_by_the_sdk(name: str) -> None:
    messages = SEQUENCES[name]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


MESSAGES = [
    *REQUESTS,
    *(with_envelope(message) for message in [PROBE, *REQUESTS]),
    INITIALIZE,
    INITIALIZED,
]


DAMAGE = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [b'"', b"\\", b"\\ud800", b"\\u0000", b"1e999", b"9" * 5000, b"NaN", b"[" * 2000]
    ),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A line in which some bytes were replaced, inserted or removed."""
    line = bytearray(json.dumps(draw(st.sampled_from(MESSAGES))).encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(line) - 1)))
        line[at : at + draw(st.integers(0, 3))] = draw(DAMAGE)
    return bytes(line).replace(b"\n", b" ")


@pytest.mark.requirement("SRV-1")
@pytest.mark.requirement("SRV-8")
@settings(max_examples=300)
@given(st.sampled_from([[], OPENED]), damaged())
async def test_damaged_lines_are_answered_with_one_message_each_and_the_next_is_served(
    opened: list[Any], line: bytes
) -> None:
    *_, answers, pong = await ours([*opened, line, request(77, "ping")])

    assert len([answer for answer in answers if "id" in answer]) <= 1
    assert 77 in [answer["id"] for answer in pong]


MODES = ["meta", "direct", "dynamic", "view"]
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


@asynccontextmanager
async def gateway_of(folder: Path, mode: str) -> AsyncIterator[Gateway]:
    """The gateway in front of the hostile server; for `view`, that of a view of all."""
    place = Folder(folder)
    server = {"mode": "direct" if mode == "view" else mode, "poolLimit": 100}
    world = hostile(folder / "world.json")
    place.write(world.server(), server=server, views={"all": {"servers": ["hostile"]}})
    async with place.open() as engine:
        await engine.refresh()
        gateway = Gateway(engine)
        within = gateway.in_view("all")
        assert within
        yield within if mode == "view" else gateway


@asynccontextmanager
async def client_of(gateway: Gateway, version: str) -> AsyncIterator[Session]:
    async with served(gateway) as wire:
        session = Session(wire.to_server, wire.from_server, wire.answered)
        session.era = "modern" if version == VERSIONS[-1] else "legacy"
        session.notified = []  # type: ignore[attr-defined]
        if session.era == "legacy":
            await session.ask(request(1, "initialize", **HANDSHAKE | {"protocolVersion": version}))
            await session.send(INITIALIZED)
        yield session


async def everything(client: Session, mode: str) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """All that a client can ask for: the method, its subject, and the result."""

    async def asked(
        method: str, subject: str = "", **params: Any
    ) -> tuple[str, str, dict[str, Any]]:
        answer = await client.asked(method, **params)
        assert "result" in answer, answer
        return method, subject, answer["result"]

    has_pool = mode == "dynamic" and client.era == "legacy"
    is_named = mode in ("direct", "view") or has_pool
    if has_pool:
        await client.called("search_tools", query="blocks", limit=50)
    for method in LISTS:
        yield await asked(method)
    for name in RESULTS:
        executed = {"tool": f"hostile:{name}", "arguments": {}}
        named = {"name": f"hostile__{name}", "arguments": {}}
        meant = named if is_named else {"name": "execute_tool", "arguments": executed}
        yield await asked("tools/call", name, **meant)
    for one in (await client.asked("resources/list"))["result"]["resources"]:
        yield await asked("resources/read", one["uri"], uri=one["uri"])
    yield await asked("prompts/get", "p", name="p", arguments={})
    reference = {"type": "ref/prompt", "name": "p"}
    argument = {"name": "a", "value": ""}
    yield await asked("completion/complete", ref=reference, argument=argument)


def listed(result: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    yield from (value for value in result.values() if isinstance(value, list))


def metas(value: Any, *, is_own: bool = True) -> Iterator[Any]:
    """What the gateway alone may write in a result and within it."""
    if isinstance(value, dict):
        meta = value.get("_meta", {})
        yield {key: one for key, one in meta.items() if is_own or key.startswith("discovery/")}
        for key, one in value.items():
            if key != "_meta":
                yield from metas(one, is_own=False)
    elif isinstance(value, list):
        for one in value:
            yield from metas(one, is_own=False)


def said(result: dict[str, Any]) -> str:
    """What a reader finds in a result."""
    blocks = (block.get("text") or json.dumps(block) for block in result["content"])
    return "\n".join([*blocks, json.dumps(result.get("structuredContent"))])


@pytest.mark.requirement("SRV-90", "SRV-93", "MOD-1", "RES-30", "RES-20")
@pytest.mark.parametrize("mode", MODES)
async def test_everything_that_leaves_is_valid_in_each_revision(tmp_path: Path, mode: str) -> None:
    wrong = []
    async with gateway_of(tmp_path, mode) as gateway:
        for version in VERSIONS:
            seen = set[str]()
            async with client_of(gateway, version) as client:
                async for method, subject, result in everything(client, mode):
                    at = f"{version} {method} {subject}".strip()
                    wrong += [f"{at}: {fault}" for fault in faults_of(method, version, result)]
                    if any("forged" in json.dumps(meta) for meta in metas(result)):
                        wrong.append(f"{at}: it has a field of the gateway")
                    if method == "tools/call":
                        texts = [one for one in SAID.get(subject, ()) if one not in said(result)]
                        wrong += [f"{at}: {one!r} is lost" for one in texts]
                        is_changed = "discovery/changes" in result.get("_meta", {})
                        # A list as structured content is valid in the last revision.
                        if not is_changed and (subject, version) != ("listed", VERSIONS[-1]):
                            wrong.append(f"{at}: nothing says that it was changed")
                    if method.endswith("/list"):
                        seen |= {one["name"] for one in next(iter(listed(result)))}
            expected = {one["name"] for one in RESOURCES}
            if mode in ("direct", "view"):
                expected |= {f"hostile__{one['name']}" for one in DEFINITIONS}
            wrong += [f"{version}: {name} is not listed" for name in expected - seen]

    assert not wrong, "\n".join(wrong)
