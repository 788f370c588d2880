"""Changes of the settings of a mode while clients are connected, and helpers beside the tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import Engine
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from tests.contract.test_modes import ANIMALS, Session, client_of, opened
from tests.engines import Folder, good
from tests.rows import rows
from tests.unit.server.wire import MODERN, request

pytestmark = pytest.mark.anyio

CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def rewrite(folder: Folder, **server: Any) -> None:
    content = json.loads(folder.config.read_text("utf-8"))
    folder.config.write_text(json.dumps({**content, "server": server}), "utf-8")


@asynccontextmanager
async def connected(
    folder: Folder, era: str = "legacy", **server: Any
) -> AsyncIterator[tuple[Engine, Session]]:
    """A client that is notified of changes."""
    async with (
        opened(folder, {"zoo": ANIMALS}, server=server) as engine,
        open_notifications(engine) as notifications,
        client_of(Gateway(engine, notifications.of(engine)), era) as client,
    ):
        if era == "modern":
            wanted = {"notifications": {"toolsListChanged": True}, "_meta": dict(MODERN)}
            await client.ask(request(7, "subscriptions/listen", **wanted))
        yield engine, client


@pytest.mark.requirement("MOD-10", "NTF-1")
@rows(
    ("era", "before", "after", "names"),
    [
        ("modern", {}, {"mode": "direct"}, {"zoo__count_birds", "zoo__feed_cat", "zoo__wash_dog"}),
        (
            "legacy",
            {"mode": "direct"},
            {"mode": "direct", "expose": ["*_dog"]},
            {"zoo__wash_dog"},
        ),
        ("legacy", {"mode": "direct"}, {"mode": "direct", "poolLimit": 1}, {"zoo__count_birds"}),
        ("legacy", {}, {"steps": True}, {"execute_tool", "execute_steps", "search_tools"}),
    ],
)
async def test_a_client_is_notified_when_a_reload_changes_its_list(
    tmp_path: Path, era: str, before: Any, after: Any, names: Any
) -> None:
    folder = Folder(tmp_path)
    async with connected(folder, era, **before) as (engine, client):
        first = await client.tools()
        rewrite(folder, **after)
        await engine.reload()
        notification = await client.receive()
        second = await client.tools()

    assert notification["method"] == CHANGED
    assert first != second
    assert names <= set(second)
    assert "zoo__wash_dog" in names or "zoo__wash_dog" not in second


@pytest.mark.requirement("MOD-10")
async def test_a_reload_that_changes_no_list_notifies_nobody(folder: Folder) -> None:
    async with connected(folder, expose=["a*"]) as (engine, client):
        rewrite(folder, expose=["b*"], questionTimeout=5, poolLimit=3)
        await engine.reload()
        rewrite(folder, mode="direct")
        await engine.reload()
        await client.receive()
        await client.tools()

    assert client.notified == []


@pytest.mark.requirement("STP-4")
@pytest.mark.parametrize(
    ("mode", "era"), [("direct", "legacy"), ("direct", "modern"), ("dynamic", "legacy")]
)
async def test_steps_call_tools_by_the_names_that_the_client_sees(
    folder: Folder, mode: str, era: str
) -> None:
    server = {"mode": mode, "steps": True, "expose": ["echo"]}
    folder.write(good("f"), server=server)
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine), era) as client:
            listed = (await client.asked("tools/list"))["result"]["tools"]
            steps = [
                {"id": "a", "tool": "f__echo", "arguments": {"x": "hello"}},
                {"id": "b", "tool": "f__echo", "arguments": {"y": {"$from": "a", "path": path}}},
            ]
            done = (await client.called("execute_steps", steps=steps))["result"]
            hidden = [{"id": "a", "tool": "f__pid"}]
            refused = (await client.called("execute_steps", steps=hidden))["result"]

    (shown,) = (tool for tool in listed if tool["name"] == "execute_steps")
    assert "execute_tool" not in shown["description"]
    assert done["isError"] is False
    assert json.loads(done["content"][0]["text"])["b"]["status"] == "ok"
    assert refused["isError"] is True


path = "content[0].json.x"


@pytest.mark.requirement("STP-4")
async def test_without_the_setting_there_are_no_steps_beside_the_tools(folder: Folder) -> None:
    folder.write(good("f"), server={"mode": "direct"})
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine)) as client:
            refused = await client.called("execute_steps", steps=[])
            with anyio.fail_after(60):
                names = await client.tools()

    assert refused["error"]["code"] == -32602
    assert "execute_steps" not in names


@pytest.mark.requirement("MOD-31", "STP-4")
async def test_a_tool_that_steps_call_becomes_fresh(folder: Folder) -> None:
    async with connected(folder, mode="dynamic", steps=True, poolLimit=2) as (_, client):
        await client.found("feed a cat with fish")
        await client.found("wash a dog with soap")
        await client.called("execute_steps", steps=[{"id": "a", "tool": "zoo__feed_cat"}])
        found = await client.found("count the birds in a tree")

    assert found["evicted"] == ["zoo__wash_dog"]
