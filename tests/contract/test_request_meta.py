"""The `_meta` of a client's request, as the server gets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discovery_server.gateway import Gateway
from tests.contract.test_modes import client_of
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
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "execute_tool", "arguments": {"tool": "docs:t"}}),
    ("resources/read", {"uri": "x:/a"}),
    ("prompts/get", {"name": "ask"}),
    ("completion/complete", COMPLETION),
]
LARGE = {"large": "x" * 20_000, "wide": ["y" * 9_000] * 2}


@rows(("client_era", "server_era"), [("legacy", "modern"), ("modern", "legacy")])
@pytest.mark.requirement("SRV-63")
async def test_the_members_of_a_client_reach_the_server_unchanged_but_for_large_ones(
    tmp_path: Path, client_era: str, server_era: str
) -> None:
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")], resources=[resource("x:/a")], prompts=[prompt("ask")])
    folder.write(world.server(era=server_era))
    era = dict(MODERN) if client_era == "modern" else {}
    meta = {**LARGE, **TRACE, **OWN, **era, "progressToken": "t"}
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine), client_era) as client:
            for method, params in REQUESTS:
                answer = await client.ask(request(50, method, **params, _meta=meta))
                while "id" not in answer:  # progress comes before it
                    answer = await client.receive()
                (got,) = world.asked(method)

                assert "result" in answer
                given = got["params"]["_meta"]
                assert {key: given[key] for key in TRACE} == TRACE
                assert not (OWN.keys() | LARGE.keys()) & given.keys()
                assert given.get("progressToken") != "t"


@pytest.mark.requirement("SRV-63")
async def test_they_are_neither_recorded_nor_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")])
    folder.write(world.server(era="legacy"))
    meta = {"com.example/token": "not-a-known-secret"}
    method, params = REQUESTS[0]
    async with folder.open(record=tmp_path / "recorded") as engine:
        await engine.refresh()
        async with client_of(Gateway(engine)) as client:
            await client.asked(method, **params, _meta=meta)

    files = [one for one in (tmp_path / "recorded").rglob("*") if one.is_file()]
    assert world.asked("tools/call")[0]["params"]["_meta"].items() >= meta.items()
    assert files
    assert not any("not-a-known-secret" in one.read_text("utf-8") for one in files)
    assert "not-a-known-secret" not in caplog.text
