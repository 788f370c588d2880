"""What is tried and looked up over the API: stderr, pings, updates of resources, and more."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from discovery_engine import sync
from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.events import ResourceUpdated
from discovery_engine.tools.model import ServerName
from tests.api_server import served, serving
from tests.contract.test_api import command_line
from tests.engines import Folder, broken, good, heard
from tests.factories import make_definition
from tests.servers.offerings import World, resource

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-23")]

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LINES = """
import os, sys
print(*range(30), os.environ["TOKEN"], sep="\\n", file=sys.stderr)
sys.exit(3)
"""


async def test_the_last_lines_of_stderr_are_shown_without_secrets(folder: Folder) -> None:
    transport = StdioTransport(sys.executable, ("-c", LINES), {"TOKEN": SECRET})
    failing = ServerSettings(ServerName("bad"), transport)
    async with served(folder, failing, good()) as api:
        shown = await api.get("/servers/bad/stderr", lines=3)
        none = await api.get("/servers/good/stderr")
        unknown = await api.ask("/servers/nobody/stderr")
        beyond = await api.ask("/servers/bad/stderr?lines=21")

    assert shown == {"server": "bad", "lines": ["28", "29", "••••"]}
    assert none["lines"] == []
    assert (unknown.status_code, beyond.status_code) == (404, 422)


async def test_a_server_is_pinged_and_says_why_it_does_not_answer(folder: Folder) -> None:
    async with served(folder, good(), broken(good("bad"))) as api:
        well = (await api.ask("/servers/good/ping", "POST", json={})).json()
        ill = (await api.ask("/servers/bad/ping", "POST", json={"timeout": 5})).json()
        refused = [
            (await api.ask("/servers/good/ping", "POST", json={"timeout": seconds})).status_code
            for seconds in (0, -1, 61, 1e300)
        ]
        unknown = await api.ask("/servers/nobody/ping", "POST", json={})

    assert (well["status"], well["error"]) == ("healthy", None)
    assert well["latency_ms"] > 0
    assert ill["status"] == "unhealthy"
    assert ill["error"]
    assert refused == [422] * 4
    assert unknown.status_code == 404


async def test_updates_of_a_resource_are_subscribed_to_once_and_arrive_as_events(
    folder: Folder,
) -> None:
    world = World(folder.path / "world.json").offer(
        tools=[make_definition("notify")], resources=[resource("x:/1"), resource("x:/2")]
    )
    folder.write(world.server(era="legacy"))
    uri = {"uri": "x:/1"}
    update = {"method": "notifications/resources/updated", "params": uri}
    async with folder.open() as engine, serving(engine, folder) as api:
        for _ in range(2):
            answer = await api.ask("/servers/docs/resources/subscribe", "POST", json=uri)
            assert answer.json() == {"server": "docs", "uri": "x:/1"}, answer.text
        known = await api.get("/subscriptions")
        with engine.subscribe(ResourceUpdated) as events:
            await engine.execute("docs", "notify", update)
            arrived = await heard(events, ResourceUpdated, "docs")
        left = [
            (await api.ask("/servers/docs/resources/unsubscribe", "POST", json=uri)).json()
            for _ in range(2)
        ]
        rest = await api.get("/subscriptions")
        unknown = await api.ask(
            "/servers/docs/resources/subscribe", "POST", json={"uri": "z:/none"}
        )

    assert known == {"resources": [{"server": "docs", "uri": "x:/1"}]}
    assert arrived.uri == "x:/1"
    assert left == [{"unsubscribed": True}, {"unsubscribed": False}]
    assert rest == {"resources": []}
    assert unknown.status_code == 404
    asked = [line["method"] for line in world.asked() if "scribe" in line["method"]]
    assert asked.count("resources/subscribe") == 1


async def test_the_programs_that_start_packages_are_shown_with_how_to_get_them(
    folder: Folder, tmp_path: Path
) -> None:
    uvx = tmp_path / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.write_text("#!/bin/sh\necho uvx 1.2.3\n", "utf-8")
    uvx.chmod(0o755)
    async with served(folder, environ={"PATH": str(uvx.parent)}) as api:
        found = {one["program"]: one for one in (await api.get("/prerequisites"))["programs"]}

    assert {"npx", "uvx", "docker", "uv"} <= set(found)
    assert (found["uvx"]["is_usable"], found["uvx"]["version"]) == (True, "1.2.3")
    assert found["npx"]["is_usable"] is False
    assert found["npx"]["hint"]


async def test_what_is_remembered_is_shown_and_forgotten(folder: Folder) -> None:
    async with served(folder) as api:
        shown = await api.get("/cache")
        printed = await anyio.to_thread.run_sync(command_line, folder, "cache", "info")
        reindexed = (await api.ask("/cache/reindex", "POST", json={})).json()
        one = (await api.ask("/cache?server=good", "DELETE")).json()
        unknown = await api.ask("/cache?server=nobody", "DELETE")
        every = (await api.ask("/cache", "DELETE")).json()
        left = await api.get("/cache")

    ages = [server.pop("age_seconds") for server in (*shown["servers"], *printed["servers"])]
    assert shown == printed
    assert all(age >= 0 for age in ages)
    assert (reindexed["tool_count"], reindexed["vector_count"]) == (shown["tool_count"], None)
    assert one["forgotten"] == every["forgotten"] == 3
    assert unknown.status_code == 404
    assert left["tool_count"] == 0


@pytest.mark.thorough
async def test_a_view_is_shown_with_what_it_shows(folder: Folder) -> None:
    async with served(folder) as api:
        view = await api.get("/views/echoes")
        unknown = await api.ask("/views/nothing")

    assert view["settings"]["rules"]
    assert {one["name"]: one["enabled_count"] for one in view["servers"]} == {"good": 1, "other": 1}
    assert unknown.status_code == 404


async def test_roots_are_shown_as_servers_are_given_them(folder: Folder) -> None:
    folder.write(good(), good("other"), server={"roots": ["work"]})
    written = json.loads(folder.config.read_text("utf-8"))
    written["servers"]["other"]["roots"] = []
    folder.config.write_text(json.dumps(written), "utf-8")
    async with folder.open() as engine, serving(engine, folder) as api:
        shown = await api.get("/roots")

    assert shown["roots"] == [{"uri": (folder.path / "work").as_uri(), "name": "work"}]
    assert shown["servers"] == {"other": []}


@pytest.mark.requirement("API-24")
async def test_the_log_comes_in_pages_with_how_many_there_are(folder: Folder) -> None:
    async with served(folder) as api:
        for number in range(5):
            body: JSONObject = {"arguments": {"text": str(number)}}
            await api.ask("/servers/good/tools/echo/call", "POST", json=body)
        pages, before = [], None
        while True:
            query = {"kind": "call", "limit": 2, "total": True}
            page = await api.get("/logs", **query, **({"before": before} if before else {}))
            pages.append([entry["arguments"]["text"] for entry in page["entries"]])
            before = page["next_before"]
            if before is None:
                break
        uncounted = await api.get("/logs", kind="call")

    assert pages == [["3", "4"], ["1", "2"], ["0"]]
    assert page["total"] == 5
    assert (uncounted["total"], uncounted["next_before"]) == (None, None)


def test_the_engine_without_async_has_these_verbs(folder: Folder) -> None:
    folder.write(good())
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        assert engine.stderr("good") == ()
        assert engine.prerequisites()
        assert engine.roots() == (None, {})
        assert engine.registry_file == folder.data / "registry.db"
        assert engine.call_log.count() == 0
