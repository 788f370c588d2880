"""The `_meta` of a client's request, as the server gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.passed_meta import passed_meta
from discovery_engine.rpc.protocol import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from discovery_server.gateway import Gateway
from tests.contract.test_modes import Session, client_of
from tests.engines import Folder
from tests.factories import make_definition
from tests.rows import rows
from tests.servers.offerings import World, prompt, resource
from tests.unit.server.wire import MODERN, request

pytestmark = pytest.mark.anyio

TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=1",
    "baggage": "user=a",
    "com.example/any": {"deep": [1, None, 1.5]},
}
OWN = {
    "io.modelcontextprotocol/related-task": {"taskId": "1"},
    "io.modelcontextprotocol/subscriptionId": "x",
    "discovery/server": "forged",
}
COMPLETION = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "a", "value": ""}}
REQUESTS: dict[str, tuple[str, str, JSONObject]] = {
    "direct": ("tools/call", "tools/call", {"name": "docs__t", "arguments": {}}),
    "meta": ("tools/call", "tools/call", {"name": "execute_tool", "arguments": {"tool": "docs:t"}}),
    "steps": (
        "tools/call",
        "tools/call",
        {"name": "execute_steps", "arguments": {"steps": [{"id": "a", "tool": "docs:t"}]}},
    ),
    "resource": ("resources/read", "resources/read", {"uri": "x:/a"}),
    "prompt": ("prompts/get", "prompts/get", {"name": "ask"}),
    "completion": ("completion/complete", "completion/complete", COMPLETION),
}


async def asked(client: Session, method: str, params: JSONObject, meta: JSONObject) -> JSONObject:
    era = dict(MODERN) if client.era == "modern" else {}
    message = await client.ask(request(50, method, **params, _meta={**meta, **era}))
    while "id" not in message:  # progress comes before the answer
        message = await client.receive()
    return message


@pytest.mark.thorough
@pytest.mark.parametrize("client_era", ["legacy", "modern"])
@pytest.mark.parametrize("server_era", ["legacy", "modern"])
@rows("kind", REQUESTS)
@pytest.mark.requirement("SRV-63")
async def test_the_members_of_a_client_reach_the_server_unchanged(
    tmp_path: Path, client_era: str, server_era: str, kind: str
) -> None:
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")], resources=[resource("x:/a")], prompts=[prompt("ask")])
    mode = "direct" if kind == "direct" else "meta"
    folder.write(world.server(era=server_era), server={"mode": mode, "steps": True})
    method, sent, params = REQUESTS[kind]
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine), client_era) as client:
            answer = await asked(client, method, params, {**TRACE, **OWN, "progressToken": "t"})
            (got,) = world.asked(sent)
            await asked(client, method, params, {})
            plain = world.asked(sent)[1]

    assert "result" in answer
    given = got["params"]["_meta"]
    assert {key: given[key] for key in TRACE} == TRACE
    assert not OWN.keys() & given.keys()
    assert given.get("progressToken") != "t"
    ours = {PROTOCOL_VERSION, CLIENT_CAPABILITIES} if server_era == "modern" else set()
    assert ours <= given.keys()
    assert not TRACE.keys() & plain["params"].get("_meta", {}).keys()


@pytest.mark.requirement("SRV-63")
async def test_they_are_neither_recorded_nor_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")])
    folder.write(world.server(era="legacy"))
    client = CallbackClient(meta={"com.example/token": "not-a-known-secret"})
    async with folder.open(record=tmp_path / "recorded") as engine:
        await engine.refresh()
        await engine.execute("docs", "t", {}, caller=client)

    files = [one for one in (tmp_path / "recorded").rglob("*") if one.is_file()]
    assert world.asked("tools/call")[0]["params"]["_meta"] == client.meta
    assert files
    assert not any("not-a-known-secret" in one.read_text("utf-8") for one in files)
    assert "not-a-known-secret" not in caplog.text


@rows("meta", [None, [], "x", {}, {"progressToken": 1}])
def test_without_members_nothing_is_added(meta: Any) -> None:
    assert not passed_meta(meta)


@pytest.mark.requirement("SRV-63")
def test_too_large_members_are_dropped_and_a_trace_is_kept() -> None:
    members = {"large": "x" * 20_000, "small": 1, "wide": ["y" * 9_000] * 2, **TRACE}

    passed = passed_meta(members)

    assert passed == {"small": 1, **TRACE}
    assert list(passed) == ["small", *TRACE]
    assert len(json.dumps(passed_meta({f"k{n}": "x" * 999 for n in range(99)}))) < 17_000
