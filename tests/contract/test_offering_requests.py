"""Resources are read, prompts got and arguments completed through the engine."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from discovery_engine import OfferingKind
from discovery_engine.errors import (
    NotFoundError,
    PromptDisabledError,
    ResourceDisabledError,
    ResourceNotFoundError,
    UpstreamProtocolError,
)
from discovery_engine.events import ToolCalled
from tests.engines import Folder, heard
from tests.servers.offerings import World, prompt, resource, template

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world.json").offer(
        resources=[resource("file:///readme"), resource("file:///secret")],
        templates=[template("file:///{+path}")],
        prompts=[prompt("review", "code"), prompt("hidden")],
    )


RULES = {
    "resourceRules": [{"pattern": "*secret*", "enabled": False}],
    "promptRules": [{"pattern": "hidden", "enabled": False}],
}


@ERAS
@pytest.mark.requirement("RES-3")
async def test_a_resource_is_read_and_a_prompt_got_byte_for_byte(
    folder: Folder, world: World, era: str
) -> None:
    folder.write(world.server(era=era))
    async with folder.open() as engine:
        await engine.refresh()
        read = await engine.offerings.read_resource("file:///readme")
        expanded = await engine.offerings.read_resource("file:///a/%2e%2e/b")
        got = await engine.offerings.get_prompt("docs:review", {"code": "x = 1"})
        reference = {"type": "ref/prompt", "name": "docs:review", "vendor": 1}
        completed = await engine.offerings.complete(
            {"ref": reference, "argument": {"name": "code", "value": "x"}}
        )

    content = {"uri": "file:///readme", "mimeType": "text/plain", "text": "file:///readme"}
    assert read["contents"] == [content | {"vendor": {"kept": 1}}]
    assert read["vendor"] == [1.0, None]
    assert expanded["contents"][0]["uri"] == "file:///a/%2e%2e/b"
    assert got["messages"][0]["content"]["text"] == '{"code": "x = 1"}'
    [sent] = map(json.loads, completed["completion"]["values"])
    assert sent["ref"] == {"type": "ref/prompt", "name": "review", "vendor": 1}


@pytest.mark.requirement("RES-3")
async def test_the_templates_of_a_server_are_completed_by_their_addresses(
    folder: Folder, tmp_path: Path
) -> None:
    worlds = [
        World(tmp_path / f"{name}.json", name).offer(
            resources=[], templates=[template("file:///{path}")]
        )
        for name in ("one", "two")
    ]
    folder.write(*(world.server() for world in worlds))
    async with folder.open() as engine:
        await engine.refresh()
        entries = (await engine.offerings.list(OfferingKind.TEMPLATE)).entries
        address = engine.view.offerings.address(entries[1].offering)
        reference = {"type": "ref/resource", "uri": address}
        await engine.offerings.complete(
            {"ref": reference, "argument": {"name": "path", "value": "a"}}
        )

    assert not worlds[0].asked("completion/complete")
    [asked] = worlds[1].asked("completion/complete")
    assert asked["params"]["ref"]["uri"] == "file:///{path}"


WAYS_OUT = [
    "file:///secret",
    "file:///a/../secret",
    "file:///a/%2e%2e/secret",
    "file:///%73ecret",
    "file:///SECRET",
    "file:///secret?x",
    f"discovery://servers/docs/resources/{quote('file:///secret', safe='')}",
    "discovery://servers/docs/resources/file:///a/../secret",
]


@pytest.mark.requirement("RES-23")
@pytest.mark.parametrize("uri", WAYS_OUT)
async def test_nothing_hidden_is_asked_of_the_server(
    folder: Folder, world: World, uri: str
) -> None:
    folder.write(world.server(), **RULES)
    async with folder.open() as engine:
        await engine.refresh()
        with pytest.raises(ResourceDisabledError):
            await engine.offerings.read_resource(uri)
        with pytest.raises(PromptDisabledError):
            await engine.offerings.get_prompt("hidden")
        for reference in (
            {"type": "ref/prompt", "name": "hidden"},
            {"type": "ref/resource", "uri": uri},
        ):
            with pytest.raises((PromptDisabledError, ResourceDisabledError)):
                await engine.offerings.complete(
                    {"ref": reference, "argument": {"name": "a", "value": ""}}
                )

    assert not world.asked("resources/read", "prompts/get", "completion/complete")


@pytest.mark.requirement("RES-23")
@pytest.mark.parametrize("uri", ["file:///etc/passwd", "file:///../../etc/passwd"])
async def test_a_uri_of_a_file_reads_no_file(folder: Folder, tmp_path: Path, uri: str) -> None:
    world = World(tmp_path / "world.json").offer(resources=[resource("x:/1")], prompts=[])
    folder.write(world.server())
    async with folder.open() as engine:
        await engine.refresh()
        with pytest.raises(ResourceNotFoundError):
            await engine.offerings.read_resource(uri)

    assert not world.asked("resources/read")


@pytest.mark.requirement("RES-3")
async def test_a_server_that_was_never_listed_is_listed_first(folder: Folder, world: World) -> None:
    folder.write(world.server())
    async with folder.open() as engine:
        got = await engine.offerings.get_prompt("docs:review", {"code": "1"})
        found = await engine.offerings.list(OfferingKind.PROMPT, "docs")

    assert got["messages"]
    assert [entry.offering.name for entry in found.entries] == ["hidden", "review"]


@pytest.mark.requirement("RES-3")
async def test_the_servers_error_is_passed_on(folder: Folder, tmp_path: Path) -> None:
    world = World(tmp_path / "world.json").offer(resources=[resource("x:/1")], contents={})
    folder.write(world.server())
    async with folder.open() as engine:
        await engine.refresh()
        with pytest.raises(UpstreamProtocolError) as caught:
            await engine.offerings.read_resource("x:/1")

    assert (caught.value.rpc_code, caught.value.server, caught.value.tool) == (
        -32002,
        "docs",
        "x:/1",
    )


@pytest.mark.requirement("RES-5")
async def test_each_use_is_an_event_without_arguments(folder: Folder, world: World) -> None:
    folder.write(world.server(), **RULES)
    async with folder.open() as engine:
        await engine.refresh()
        with engine.subscribe(ToolCalled) as events:
            await engine.offerings.read_resource("file:///token=1234")
            await engine.offerings.get_prompt("review", {"code": "12345"})
            for uri in ("file:///secret", "nowhere:///token=1234"):
                with pytest.raises((ResourceDisabledError, NotFoundError)):
                    await engine.offerings.read_resource(uri)
            calls = [await heard(events, ToolCalled) for _ in range(4)]

    assert [(call.server, call.tool, call.outcome) for call in calls] == [
        ("docs", "template:file:///{+path}", "ok"),
        ("docs", "prompt:review", "ok"),
        ("docs", "resource:?", "RESOURCE_DISABLED"),
        ("", "resource:?", "RESOURCE_NOT_FOUND"),
    ]
    assert calls[1].argument_size == len("12345")
