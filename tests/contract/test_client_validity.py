"""What leaves for a client is valid in its revision, whatever a server sends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.sync import open_engine
from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.contract.test_modes import Session
from tests.engines import Folder
from tests.forked import Preloaded
from tests.hostile import DEFINITIONS, RESOURCES, RESULTS, SAID, hostile
from tests.protocol_schemas import VERSIONS, faults_of
from tests.unit.server import sdk_client
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, request, served

pytestmark = pytest.mark.anyio

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


def function_of(tools: Any, name: str) -> Any:
    return next(one for one in tools.as_callables() if one.__name__ == f"hostile__{name}")


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


@pytest.mark.requirement("SRV-90")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_client_of_the_sdk_reads_everything(tmp_path: Path, mode: str) -> None:
    async with (
        gateway_of(tmp_path, "direct") as gateway,
        sdk_client.connected(gateway, mode) as client,
    ):
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts
        assert {f"hostile__{one['name']}" for one in DEFINITIONS} <= {one.name for one in tools}
        failed = {name for name in RESULTS if (await client.call_tool(f"hostile__{name}")).is_error}
        contents = [await client.read_resource(str(one.uri)) for one in resources]
        prompt = await client.get_prompt("p", {})

    assert failed == {"failed", "failing"}
    assert all(one.contents for one in contents)
    assert {one.name for one in templates} >= {"t"}
    assert {one.name for one in prompts} >= {"p"}
    assert len(prompt.messages) > 5


@pytest.mark.requirement("SRV-90", "LIB-20", "FRM-22")
async def test_functions_and_commands_show_what_a_client_gets(
    tmp_path: Path, forked: Preloaded
) -> None:
    place = Folder(tmp_path)
    place.write(hostile(tmp_path / "world.json").server(), server={"expose": ["hostile:*"]})
    some = ["text", "listed", "older", "failed", "failing"]
    shown: dict[tuple[str, str], str] = {}
    with open_engine(place.config, data_dir=place.data) as engine:
        engine.refresh()
        tools = engine.toolset(mode="select", limit=100)
        for name in some:
            tools.use(f"hostile__{name}")
            shown["blocking", name] = function_of(tools, name)()
    async with place.open() as engine:
        tools = engine.toolset(mode="select", limit=100)
        for name in SAID:
            tools.use(f"hostile__{name}")
            shown["function", name] = await function_of(tools, name)()
    discovery = Discovery(tmp_path, forked)
    codes = {}
    for name in some:
        done = discovery("execute", "hostile", name)
        codes[name], shown["command", name] = done.code, done.out + done.err

    lost = [
        f"{how} {name}: {text!r}"
        for (how, name), found in shown.items()
        for text in SAID[name]
        if "".join(text.split()) not in "".join(found.split())  # commands indent JSON
    ]
    assert not lost, "\n".join(lost)
    assert {name for name, code in codes.items() if code} == {"failed", "failing"}
