"""Changes of the settings of a mode while clients are connected, and helpers beside the tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import Engine
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from tests.contract.test_modes import ANIMALS, Session, client_of, opened
from tests.engines import Folder
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
        ("legacy", {"mode": "direct"}, {"mode": "direct", "expose": ["*_dog"]}, {"zoo__wash_dog"}),
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
