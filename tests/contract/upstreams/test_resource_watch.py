"""Servers are asked for the updates of resources, in both eras."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import UpstreamProtocolError
from discovery_engine.events import EventBus, ResourceUpdated
from discovery_engine.upstream.upstreams import Upstreams
from tests.factories import make_definition
from tests.servers.offerings import World, resource
from tests.servers.programs import call, eventually, upstreams

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world.json").offer(
        tools=[make_definition("notify")], resources=[resource("x:/1"), resource("x:/2")]
    )


def watched(world: World) -> list[str]:
    """What the server is asked to notify of by now."""
    uris: list[str] = []
    for message in world.asked("resources/subscribe", "resources/unsubscribe"):
        uri = message["params"]["uri"]
        uris = [*uris, uri] if message["method"].endswith("/subscribe") else [
            one for one in uris if one != uri
        ]  # fmt: skip
    listens = [one["params"]["notifications"] for one in world.asked("subscriptions/listen")]
    of_resources = [
        one["resourceSubscriptions"] for one in listens if "resourceSubscriptions" in one
    ]
    return uris or (of_resources[-1] if of_resources else [])


async def update(opened: Upstreams, world: World, uri: str, era: str) -> None:
    arguments: JSONObject = {"method": "notifications/resources/updated", "params": {"uri": uri}}
    await call(opened, world.server(era=era), "notify", **arguments)


@ERAS
@pytest.mark.requirement("RES-40")
async def test_a_server_is_asked_for_what_is_watched_and_its_updates_are_events(
    world: World, era: str
) -> None:
    server, events = world.server(era=era), EventBus()
    with events.subscribe(ResourceUpdated) as updates:
        async with upstreams(events=events) as opened:
            with anyio.fail_after(60):
                await opened.watch(server, "x:/1")
                await opened.watch(server, "x:/2")
                await opened.watch(server, "x:/2")
                await eventually(lambda: watched(world) == ["x:/1", "x:/2"])
                await update(opened, world, "x:/1", era)
                event = await anext(updates)
                opened.unwatch(server.name, "x:/1")
                await eventually(lambda: watched(world) == ["x:/2"])
                before = len(world.asked("resources/subscribe"))
                opened.unwatch(server.name, "x:/2")

    assert event == ResourceUpdated(server.name, "x:/1")
    assert before == (2 if era == "legacy" else 0)


@ERAS
@pytest.mark.requirement("RES-40")
async def test_a_server_that_was_lost_is_asked_again(world: World, era: str) -> None:
    server = world.server(era=era)
    async with upstreams() as opened:
        with anyio.fail_after(60):
            await opened.watch(server, "x:/1")
            await eventually(lambda: watched(world) == ["x:/1"])
            asked = len(world.asked("resources/subscribe", "subscriptions/listen"))
            pid = opened.sessions()[server.name].pid
            assert pid
            os.kill(pid, signal.SIGKILL)
            await eventually(
                lambda: len(world.asked("resources/subscribe", "subscriptions/listen")) > asked
            )


@ERAS
@pytest.mark.requirement("RES-40")
async def test_a_server_without_subscriptions_is_an_error(tmp_path: Path, era: str) -> None:
    world = World(tmp_path / "w.json").offer(resources=[], capabilities={"resources": {}})
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError) as caught:
            await opened.watch(world.server(era=era), "x:/1")

    assert "does not notify of updates" in caught.value.message
    assert not world.asked("resources/subscribe", "subscriptions/listen")


@pytest.mark.requirement("RES-40")
async def test_a_refused_subscription_is_an_error_and_is_not_repeated(tmp_path: Path) -> None:
    world = World(tmp_path / "w.json").offer(resources=[], fails=["resources/subscribe"])
    server = world.server(era="legacy")
    async with upstreams() as opened:
        for _ in range(2):
            with anyio.fail_after(60), pytest.raises(UpstreamProtocolError):
                await opened.watch(server, "x:/1")

    assert len(world.asked("resources/subscribe")) == 2


@ERAS
@pytest.mark.requirement("RES-40")
async def test_a_server_that_must_not_be_used_is_asked_nothing_more(world: World, era: str) -> None:
    server = world.server(era=era)
    async with upstreams() as opened:
        with anyio.fail_after(60):
            await opened.watch(server, "x:/1")
            await opened.close(server.name)
            await eventually(lambda: not opened.sessions())
            await anyio.wait_all_tasks_blocked()

        assert not opened.sessions()
