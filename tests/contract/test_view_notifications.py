"""Clients of a view are notified of what changes in it, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.engine import Engine
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from tests.contract.test_modes import ERAS, Session, client_of
from tests.engines import Folder
from tests.factories import make_definition
from tests.servers.offerings import World, prompt, resource, template
from tests.unit.server.wire import MODERN, request

pytestmark = pytest.mark.anyio

UPDATED = "notifications/resources/updated"
VIEWS: dict[str, Any] = {
    "docs": {"servers": ["docs"], "resourceRules": [{"pattern": "*secret*", "enabled": False}]},
    "direct": {"mode": "direct", "servers": ["docs"], "rules": [{"pattern": "notify"}]},
}
VIEWS["direct"]["rules"][0]["enabled"] = False


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def docs(tmp_path: Path) -> World:
    return World(tmp_path / "docs.json").offer(**OFFERED)


@pytest.fixture
def other(tmp_path: Path) -> World:
    return World(tmp_path / "other.json", "other").offer(resources=[], prompts=[])


OFFERED: dict[str, Any] = {
    "tools": [make_definition("notify"), make_definition("count")],
    "resources": [resource("x:/d"), resource("x:/d/secret"), resource("x:/e")],
    "templates": [template("x:/{+path}")],
    "prompts": [prompt("review")],
}


class Setting:
    def __init__(self, engine: Engine, gateway: Gateway, stack: AsyncExitStack) -> None:
        self.engine = engine
        self.gateway = gateway
        self._stack = stack

    async def client(self, view: str | None, era: str, *uris: str) -> Session:
        """A client that wants to know of all, and of these resources."""
        gateway = self.gateway if view is None else self.gateway.in_view(view)
        assert gateway is not None
        client = await self._stack.enter_async_context(client_of(gateway, era))
        if era == "legacy":
            for uri in uris:
                assert "result" in await client.asked("resources/subscribe", uri=uri)
        else:
            kinds = ("tools", "prompts", "resources")
            wanted = {**{f"{k}ListChanged": True for k in kinds}, "resourceSubscriptions": uris}
            await client.send(
                request(9, "subscriptions/listen", notifications=wanted, _meta=dict(MODERN))
            )
            acknowledged = (await client.receive())["params"]["notifications"]
            assert acknowledged.get("resourceSubscriptions", []) == sorted(uris)
        return client

    async def send_update(self, uri: str) -> None:
        update = {"method": UPDATED, "params": {"uri": uri}}
        await self.engine.execute("docs", "notify", update)


@asynccontextmanager
async def setting(folder: Folder, *worlds: World, **sections: Any) -> AsyncIterator[Setting]:
    folder.write(*(world.server() for world in worlds), **{"views": VIEWS, **sections})
    async with folder.open() as engine, open_notifications(engine) as notifications:
        await engine.refresh()
        async with AsyncExitStack() as stack:
            gateway = Gateway(engine, notifications.of(engine), subscriptions_of=notifications.of)
            yield Setting(engine, gateway, stack)


async def first(client: Session) -> str:
    """The kind of the first notification, or the address of the updated resource."""
    message = await client.receive()
    return message.get("params", {}).get("uri") or message["method"]


@pytest.mark.thorough
@ERAS
@pytest.mark.requirement("VIEW-8")
async def test_a_change_outside_of_a_view_is_no_change_for_its_clients(
    folder: Folder, docs: World, other: World, era: str
) -> None:
    async with setting(folder, docs, other) as the:
        everybody = await the.client(None, era)
        reader = await the.client("docs", era)

        other.offer(resources=[resource("x:/new")], prompts=[])
        await the.engine.refresh()
        told_of_other = await first(everybody)
        secret = [*OFFERED["resources"], resource("x:/secret/two")]
        docs.offer(**{**OFFERED, "resources": secret})
        await the.engine.refresh()
        again = await first(everybody)
        docs.offer(**{**OFFERED, "resources": secret, "prompts": []})
        await the.engine.refresh()

        assert told_of_other == again == "notifications/resources/list_changed"
        assert await first(reader) == "notifications/prompts/list_changed"


@pytest.mark.thorough
@ERAS
@pytest.mark.requirement("VIEW-8")
async def test_client_of_a_view_is_notified_of_updates_within_the_view_only(
    folder: Folder, docs: World, era: str
) -> None:
    async with setting(folder, docs) as the:
        everybody = await the.client(None, era, "x:/d", "x:/d/secret")
        reader = await the.client("docs", era, "x:/d", "x:/e")

        for hidden in ("x:/d/secret", "x:/d/secret/part", "x:/d/%73ecret"):
            await the.send_update(hidden)
        assert {await first(everybody), await first(everybody)} == {"x:/d", "x:/d/secret"}
        await the.send_update("x:/e/part")

        assert await first(reader) == "x:/e"


@pytest.mark.thorough
@pytest.mark.requirement("VIEW-8", "VIEW-2")
async def test_client_of_a_view_cannot_subscribe_outside_of_it(
    folder: Folder, docs: World, other: World
) -> None:
    other.offer(resources=[resource("z:/o")])
    outside = [
        "x:/d/secret",
        "x:/%64/../secret",
        "z:/o",
        "discovery://servers/other/resources/z:/o",
    ]
    async with setting(folder, docs, other) as the:
        legacy = await the.client("docs", "legacy", "x:/e")
        refused = [await legacy.asked("resources/subscribe", uri=uri) for uri in outside]
        modern = await the.client("docs", "modern")
        wanted = {"resourceSubscriptions": [*outside, "x:/e"]}
        listen = request(10, "subscriptions/listen", notifications=wanted, _meta=dict(MODERN))
        acknowledged = await modern.ask(listen)

    assert all("_NOT_FOUND" in answer["error"]["message"] for answer in refused)
    assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["x:/e"]}
    subscribing = json.dumps(docs.asked("resources/subscribe", "subscriptions/listen"))
    assert "x:/e" in subscribing
    assert "secret" not in subscribing
    assert "z:/o" not in json.dumps(other.asked("resources/subscribe", "subscriptions/listen"))
