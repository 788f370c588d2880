"""Updates of resources reach the clients that subscribed, and only of what they may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import ResourceDisabledError
from discovery_engine.events import ResourceUpdated
from discovery_engine.rpc.peer import RpcError
from discovery_engine.tools.model import ServerName
from discovery_server.client_notifications import open_notifications
from discovery_server.resource_feed import EngineFeed
from discovery_server.subscriptions import LISTS
from tests.engines import Folder
from tests.factories import make_definition
from tests.servers.offerings import World, prompt, resource, template
from tests.servers.programs import eventually

pytestmark = pytest.mark.anyio

DOCS = ServerName("docs")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world.json").offer(
        tools=[make_definition("notify")],
        resources=[resource("x:/1"), resource("x:/secret")],
        templates=[template("y:/{id}")],
        prompts=[],
    )


@pytest.mark.requirement("RES-41")
async def test_an_update_has_the_address_that_was_subscribed_to(
    folder: Folder, world: World
) -> None:
    folder.write(world.server(), resourceRules=[{"pattern": "*secret*", "enabled": False}])
    named = f"discovery://servers/docs/resources/{quote('x:/1', safe='')}"
    async with folder.open() as engine:
        await engine.refresh()
        feed = EngineFeed(engine)
        with anyio.fail_after(60):
            for address in ("x:/1", named, "y:/7"):
                await feed.watch(address)
            assert feed.addresses_of(ResourceUpdated(DOCS, "x:/1")) == ["x:/1", named]
            assert feed.addresses_of(ResourceUpdated(DOCS, "y:/7/part")) == ["y:/7"]
            assert feed.addresses_of(ResourceUpdated(ServerName("other"), "x:/1")) == []
            assert feed.addresses_of(ResourceUpdated(DOCS, "x:/secret")) == []
            await feed.unwatch("x:/1")
            assert feed.addresses_of(ResourceUpdated(DOCS, "x:/1")) == [named]
            with pytest.raises(ResourceDisabledError):
                await engine.offerings.watch_resource("x:/secret")
            for address in ("x:/secret", "discovery://docs/usage-guide", "z:/none"):
                with pytest.raises(RpcError):
                    await feed.watch(address)


@pytest.mark.requirement("RES-41")
async def test_an_update_of_what_is_hidden_by_now_is_dropped(folder: Folder, world: World) -> None:
    folder.write(world.server())
    async with folder.open() as engine:
        await engine.refresh()
        feed = EngineFeed(engine)
        with anyio.fail_after(60):
            await feed.watch("x:/1")
            world.offer(resources=[resource("x:/1", description="changed")])
            await engine.refresh()

        assert feed.addresses_of(ResourceUpdated(DOCS, "x:/1")) == []


@dataclass
class Notes:
    """What a client is notified of, as a stream."""

    is_congested = False
    notes: list[str] = field(default_factory=list)

    def write(self, message: JSONObject) -> None:
        uri = message.get("params", {}).get("uri")
        self.notes.append(uri or message["method"].split("/")[1])

    async def drain(self) -> None:
        """Never congested."""

    def begin(self) -> None:
        """No request is answered on it."""

    def end(self, request_id: object, *, is_cancelled: bool) -> None:
        """As `begin`."""


@pytest.mark.requirement("RES-41")
async def test_changes_of_lists_and_resources_are_passed_on(folder: Folder, world: World) -> None:
    folder.write(world.server())
    noted = Notes()
    async with folder.open() as engine:
        await engine.refresh()
        with anyio.fail_after(60):
            async with open_notifications(engine) as notifications:
                subscriptions = notifications.of(engine)
                subscriber = subscriptions.add("client", LISTS, lambda: noted)
                subscriber.start()
                await subscriptions.watch(subscriber, "x:/1")
                await engine.execute(
                    "docs",
                    "notify",
                    {"method": "notifications/resources/updated", "params": {"uri": "x:/1"}},
                )
                world.offer(
                    tools=[make_definition("notify")],
                    resources=[],
                    prompts=[prompt("new")],
                )
                await engine.refresh()
                await eventually(lambda: len(noted.notes) == 3)

    assert sorted(noted.notes) == ["prompts", "resources", "x:/1"]
