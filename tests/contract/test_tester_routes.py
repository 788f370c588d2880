"""What is tried and looked up over the API: stderr, pings, updates of resources, and more."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from discovery_engine.events import ResourceUpdated
from tests.api_server import served, serving
from tests.engines import Folder, broken, good, heard, program
from tests.factories import make_definition
from tests.servers.offerings import World, resource

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-16")]

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LINES = """
import sys
print(*range(30), sys.argv[-1], sep="\\n", file=sys.stderr)
sys.exit(3)
"""


async def test_the_last_lines_of_stderr_are_shown_without_secrets(folder: Folder) -> None:
    failing = program("bad", sys.executable, "-c", LINES, "--token", SECRET)
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
        well = (await api.ask("/servers/good", "POST", json={"action": "ping"})).json()
        ill = (await api.ask("/servers/bad", "POST", json={"action": "ping", "timeout": 5})).json()
        refused = [
            (
                await api.ask("/servers/good", "POST", json={"action": "ping", "timeout": seconds})
            ).status_code
            for seconds in (0, -1, 61, 1e300)
        ]
        unknown = await api.ask("/servers/nobody", "POST", json={"action": "ping"})

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
    followed = {"server": "docs", **uri, "on": True}
    no_more = {**uri, "on": False}
    update = {"method": "notifications/resources/updated", "params": uri}
    async with folder.open() as engine, serving(engine, folder) as api:
        for _ in range(2):
            answer = await api.ask("/servers/docs/resources/subscribe", "POST", json=uri)
            assert answer.json() == followed, answer.text
        known = await api.get("/subscriptions")
        with engine.subscribe(ResourceUpdated) as events:
            await engine.execute("docs", "notify", update)
            arrived = await heard(events, ResourceUpdated, "docs")
        left = [
            (await api.ask("/servers/docs/resources/subscribe", "POST", json=no_more)).json()
            for _ in range(2)
        ]
        rest = await api.get("/subscriptions")
        unknown = await api.ask(
            "/servers/docs/resources/subscribe", "POST", json={"uri": "z:/none"}
        )

    assert known == {"resources": [followed]}
    assert arrived.uri == "x:/1"
    assert left == [{**followed, "on": False}] * 2
    assert rest == {"resources": []}
    assert unknown.status_code == 404
    asked = [line["method"] for line in world.asked() if "scribe" in line["method"]]
    assert asked.count("resources/subscribe") == 1


@pytest.mark.requirement("API-7")
async def test_the_log_comes_in_pages_with_how_many_there_are(folder: Folder) -> None:
    async with served(folder) as api:
        for number in range(5):
            body: dict[str, Any] = {"arguments": {"text": str(number)}}
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
