"""Servers for a trial: shown before they start, in no view of agents, and gone without a trace."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from discovery_server.access_token import TokenLimits
from tests import engines
from tests.api_server import OWN, Api, served
from tests.engines import Folder, good
from tests.servers.programs import eventually
from tests.unit.server.web import SessionClient

pytestmark = pytest.mark.anyio

UNKNOWN = ("SERVER_NOT_FOUND", "TOOL_NOT_FOUND")
SECRET = "s3cr3t-of-the-transient-server"


def entry(name: str = "good", **more: object) -> dict[str, Any]:
    written = engines.entry(good(name))
    env = {**written["env"], "API_TOKEN": SECRET}
    return {"command": written["command"], "args": written["args"], "env": env, **more}


async def start(api: Api, **more: object) -> dict[str, Any]:
    plan = (await api.ask("/transient", "POST", json={"entry": entry(**more)})).json()
    assert SECRET not in json.dumps(plan)
    asked = {"entry": entry(**more), "digest": plan["digest"]}
    answer = await api.ask("/transient", "POST", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def content(folder: Path) -> dict[str, bytes]:
    """Every file; those of databases without the parts that any read may write."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


@pytest.mark.requirement("API-37", "API-50")
async def test_what_would_run_is_shown_and_accepted_before_anything_is_started(
    folder: Folder, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    runs = {"command": "/bin/sh", "args": ["-c", f"touch {started}; exec cat"]}
    async with served(folder) as api:
        plan = (await api.ask("/transient", "POST", json={"entry": runs})).json()
        refused = [
            await api.ask("/transient", "POST", json={"entry": one, "digest": digest})
            for one, digest in (
                (runs, "another"),
                ({**runs, "args": ["-c", "exec cat"]}, plan["digest"]),
                ({**runs, "env": {"A": "b"}}, plan["digest"]),
                ({**runs, "cwd": "/"}, plan["digest"]),
            )
        ]
        running = (await api.get("/transient"))["servers"]

    assert plan["command"] == ["/bin/sh", "-c", f"touch {started}; exec cat"]
    assert plan["program"] == "/bin/sh"
    assert [(one.status_code, one.json()["code"]) for one in refused] == [(409, "PLAN_CHANGED")] * 4
    assert not running
    assert not started.exists()


@pytest.mark.requirement("API-37")
async def test_an_entry_that_cannot_be_used_or_runs_a_command_is_refused(folder: Folder) -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"command": "x", "url": "http://y"},
        {"command": "x", "nonsense": 1},
        {"command": "x", "env": {"A": "${command:touch /tmp/x}"}},
    ]
    async with served(folder) as api:
        answers = [
            await api.ask("/transient", "POST", json={"entry": entry, **digest})
            for entry in wrong
            for digest in ({}, {"digest": "x"})
        ]

    assert all(400 <= answer.status_code < 500 for answer in answers), answers[0].text
    assert all(answer.json()["code"] for answer in answers)


@pytest.mark.thorough
@pytest.mark.requirement("API-37")
async def test_every_route_of_a_server_works_with_it(folder: Folder) -> None:
    async with served(folder) as api:
        made = await start(api)
        one = f"/servers/{made['handle']}"
        tools = (await api.get(f"{one}/tools"))["tools"]
        called = await api.ask(
            f"{one}/tools/echo/call", "POST", json={"arguments": {"text": "hello"}}
        )
        answers = {}
        for route in await api.routes():
            if not route.path.startswith("/servers/{server}"):
                continue
            path = route.filled(server=made["handle"], tool="echo")
            answer = await api.ask(path, route.method, json={})
            answers[route.method, route.path] = answer
        left = (await api.get("/transient"))["servers"]

    assert made["server"]["name"] == made["handle"]
    assert made["ends_in"] <= 900
    assert [tool["tool"] for tool in tools] == ["echo", "environment", "pid"]
    assert "hello" in called.text
    for which, answer in answers.items():
        assert answer.status_code < 500 or answer.json()["code"] != "INVALID_REQUEST", which
        assert answer.json().get("code") not in UNKNOWN, (which, answer.text)
        assert SECRET not in answer.text, which
    assert [one["handle"] for one in left] == [made["handle"]]


@pytest.mark.thorough
@pytest.mark.requirement("API-37")
async def test_agents_and_other_tokens_never_see_it(folder: Folder) -> None:
    async with served(folder) as api:
        made = await start(api)
        handle = made["handle"]
        for token in (
            api.tokens.create()[0],
            api.tokens.create(view="echoes")[0],
            api.tokens.create(limits=TokenLimits(("*",)))[0],
        ):
            for path in ("", "/tools", "/offerings?kind=resource", "/tools/echo"):
                answer = await api.ask(f"/servers/{handle}{path}", token=token)
                assert answer.status_code == 404, answer.text
            for path in ("/servers", "/search?query=echo&limit=50", "/status"):
                assert handle not in (await api.ask(path, token=token)).text
            assert (await api.ask("/transient", token=token)).status_code == 403
        assert handle not in (await api.ask("/servers")).text
        assert handle not in (await api.ask("/search?query=echo&limit=50")).text
        async with SessionClient(api.address.replace("/api", "/mcp"), OWN) as client:
            session = await client.open()
            texts = [
                (await client.call(tool, arguments, session=session)).text
                for tool, arguments in (
                    ("list_mcp_servers", {}),
                    ("search_tools", {"query": "echo", "limit": 50}),
                )
            ]
            called = await client.call(
                "execute_tool",
                {"tool": f"{handle}:echo", "arguments": {"text": "x"}},
                session=session,
            )
        metrics = await api.http.get(
            api.address.replace("/api", "/metrics"), headers={"authorization": f"Bearer {OWN}"}
        )
        kept = {"server": handle, "tool": "echo", "name": "p", "arguments": {"text": "x"}}
        elsewhere = [
            await api.ask("/refresh", "POST", json={"servers": [handle]}),
            await api.ask("/presets", "PUT", json=kept),
            await api.ask(f"/search?query=echo&server={handle}"),
        ]

    assert {one.status_code for one in elsewhere} == {404}
    assert not [text for text in texts if handle in text]
    assert called.json()["result"]["isError"]
    assert handle not in metrics.text


@pytest.mark.thorough
@pytest.mark.requirement("API-37")
@pytest.mark.parametrize("way", ["deleted", "with the gateway"])
async def test_nothing_is_left_of_it(folder: Folder, way: str) -> None:
    async with served(folder) as api:
        await api.engine.call_log.entries()
        before = content(folder.data)
        made = await start(api)
        one = f"/servers/{made['handle']}"
        called = await api.ask(f"{one}/tools/pid/call", "POST", json={})
        pid = int(json.loads(called.json()["result"]["content"][0]["text"]))
        await api.ask(f"{one}/tools/echo/call", "POST", json={"arguments": {"text": SECRET}})
        if way == "deleted":
            ended = await api.ask(f"/transient/{made['handle']}", "DELETE")
            assert ended.json() == {"ended": True}
            assert (await api.ask(one)).status_code == 404
            with anyio.fail_after(60):
                await eventually(lambda: not is_alive(pid))
            assert (await api.ask(f"/transient/{made['handle']}", "DELETE")).status_code == 404
            logged = json.dumps(await api.get("/logs"))
            assert made["handle"] not in logged
        else:
            assert is_alive(pid)
    with anyio.fail_after(60):
        await eventually(lambda: not is_alive(pid))

    after = content(folder.data)
    assert set(after) <= set(before) | {"registry.db", "activity.db"}, set(after) - set(before)
    for name, data in after.items():
        assert SECRET.encode() not in data, name
        assert made["handle"].encode() not in data, name
    assert not (folder.data / "transient").exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
