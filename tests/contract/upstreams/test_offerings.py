"""Lists of resources, resource templates and prompts; reading, getting and completing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.settings import Timeouts
from discovery_engine.errors import UpstreamProtocolError
from discovery_engine.events import EventBus, ToolsChanged
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.requests import UpstreamRequest
from tests.factories import make_definition
from tests.kinds import thinned
from tests.servers.offerings import World, prompt, resource, template
from tests.servers.programs import call, upstreams

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])
RESOURCE, TEMPLATE, PROMPT = OfferingKind


async def listed(world: World, **settings: Any) -> Listing:
    async with upstreams() as opened:
        with anyio.fail_after(60):
            return await opened.list_tools(world.server(**settings))


def identifiers(listing: Listing, kind: OfferingKind) -> list[str]:
    return [one[kind.wire.identifier] for one in listing.offerings[kind].definitions]


@ERAS
@pytest.mark.requirement("RES-1")
async def test_all_pages_of_what_a_server_offers_are_listed(tmp_path: Path, era: str) -> None:
    uris = [f"file:///{number}" for number in range(5)]
    vendor = {"vendor": {"kept": [1.0]}}
    world = World(tmp_path / "world.json").offer(
        resources=[resource(uri, **vendor) for uri in uris],
        templates=[template("file:///{path}")],
        prompts=[prompt("review", "code")],
        pages=2,
    )

    listing = await listed(world, era=era)

    assert listing.tools == ()
    assert identifiers(listing, RESOURCE) == uris
    assert listing.offerings[RESOURCE].definitions[0] == resource(uris[0], **vendor)
    assert identifiers(listing, TEMPLATE) == ["file:///{path}"]
    assert identifiers(listing, PROMPT) == ["review"]
    assert not any(one.dropped or one.failure for one in listing.offerings.values())


@ERAS
@pytest.mark.requirement("RES-1")
async def test_a_server_is_asked_only_for_what_it_declares(tmp_path: Path, era: str) -> None:
    world = World(tmp_path / "world.json").offer(tools=[make_definition()], prompts=[])

    listing = await listed(world, era=era)

    assert list(listing.offerings) == [PROMPT]
    assert not world.asked("resources/list", "resources/templates/list")


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize("broken", thinned(["fails", "silent"]))
@pytest.mark.parametrize("kind", list(OfferingKind))
async def test_a_kind_that_cannot_be_listed_costs_no_other(
    tmp_path: Path, broken: str, kind: OfferingKind
) -> None:
    world = World(tmp_path / "world.json").offer(
        tools=[make_definition()],
        resources=[resource("file:///a")],
        templates=[template("file:///{a}")],
        prompts=[prompt("review")],
        **{broken: [kind.wire.method]},
    )

    listing = await listed(world, timeouts=Timeouts(list=2))

    assert len(listing.tools) == 1
    failures = {one: found.failure for one, found in listing.offerings.items()}
    reason = {
        "fails": 'it answered error -32603: "it is broken"',
        "silent": "it did not answer within 2 s",
    }
    assert failures.pop(kind) == reason[broken]
    assert set(failures.values()) == {""}
    assert all(listing.offerings[one].definitions for one in failures)


ODD = {"title": 7, "description": ["text"], "mimeType": {}}


@pytest.mark.requirement("RES-2")
async def test_a_bad_definition_costs_only_itself_and_an_odd_text_only_the_text(
    tmp_path: Path,
) -> None:
    good, odd = resource("file:///a"), resource("file:///odd")
    untitled = {name: text for name, text in odd.items() if name not in ODD}
    world = World(tmp_path / "world.json").offer(
        resources=[
            7,
            {"name": "no uri"},
            {"uri": "file:///unnamed"},
            resource("readme", "no scheme"),
            resource("file:///long/" + "x" * 1100),
            odd | ODD,
            resource("file:///big", vendor="x" * 70_000),
            good,
            resource("file:///a", "again"),
        ],
        prompts=[prompt("p" * 300), {"name": "odd", "arguments": [{}, 7]} | ODD, prompt("good")],
    )

    listing = await listed(world)

    assert listing.offerings[RESOURCE].definitions == (untitled, good)
    assert [one.reason for one in listing.offerings[RESOURCE].dropped] == [
        "it is not an object",
        "its uri is not a non-empty string",
        "its name is not a non-empty string",
        "its uri has no scheme",
        "its uri is longer than 1024 characters",
        "it is larger than 64 KiB",
        "an earlier resource has the same uri",
    ]
    assert identifiers(listing, PROMPT) == ["odd", "good"]
    assert [one.reason for one in listing.offerings[PROMPT].dropped] == [
        "its name is longer than 256 characters",
    ]


@ERAS
@pytest.mark.requirement("RES-3")
async def test_results_pass_as_the_server_sent_them(tmp_path: Path, era: str) -> None:
    world = World(tmp_path / "world.json").offer(resources=[], prompts=[])
    server = world.server(era=era)
    reference = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a"}}

    async with upstreams() as opened:
        with anyio.fail_after(60):
            read = await opened.send(server, UpstreamRequest.read("file:///%2e%2e/a"))
            got = await opened.send(server, UpstreamRequest.get_prompt("p", {"a": "1"}))
            completed = await opened.send(server, UpstreamRequest.complete(reference))

    content = {"uri": "file:///%2e%2e/a", "mimeType": "text/plain", "text": "file:///%2e%2e/a"}
    assert read == {"contents": [content | {"vendor": {"kept": 1}}], "vendor": [1.0, None]}
    assert got["messages"][0]["content"] == {"type": "text", "text": '{"a": "1"}', "vendor": 1}
    assert completed["completion"]["values"] == [
        '{"argument": {"name": "a"}, "ref": {"name": "p", "type": "ref/prompt"}}'
    ]


@pytest.mark.requirement("RES-3")
async def test_an_error_of_the_server_keeps_its_code(tmp_path: Path) -> None:
    world = World(tmp_path / "world.json").offer(resources=[], contents={})

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError) as caught:
            await opened.send(world.server(), UpstreamRequest.read("file:///a"))

    assert caught.value.rpc_code == -32002


@ERAS
@pytest.mark.requirement("RES-4")
@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
async def test_a_changed_list_of_each_kind_is_noticed(tmp_path: Path, era: str, kind: str) -> None:
    world = World(tmp_path / "world.json").offer(
        tools=[make_definition("notify")], resources=[], prompts=[]
    )
    server, events = world.server(era=era), EventBus()

    with events.subscribe(ToolsChanged) as changes:
        async with upstreams(events=events) as opened:
            await opened.list_tools(server)
            await call(opened, server, "notify", method=f"notifications/{kind}/list_changed")
            with anyio.fail_after(60):
                event = await anext(changes)

    assert event == ToolsChanged(server.name)
