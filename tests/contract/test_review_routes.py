"""Reviewing changed tools and approving servers over the API: specs/api.md."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio.to_thread
import pytest

from discovery_engine.engine import Engine, open_engine
from tests.api_server import Api, command_line, served, serving
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-21")]

KIND = make_definition("greet", "Greet a person kindly.")
RUDE = make_definition("greet", "Greet a person rudely and loudly.")


def discovered(folder: Folder) -> AbstractAsyncContextManager[Engine]:
    """An engine whose configuration nobody named: it is found in the working folder."""
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder.path / "home")}
    environ.pop("DISCOVERY_CONFIG", None)
    return open_engine(data_dir=folder.data, environ=environ)


async def changed(api: Api, told: Told, *tools: dict[str, Any]) -> dict[str, Any]:
    """What waits after the server has changed its tools."""
    told.says(*tools)
    await api.ask("/refresh", "POST", json={"servers": ["told"]})
    return await api.get("/review/told")


async def accepted(api: Api, digest: str, **chosen: list[str]) -> tuple[int, dict[str, Any]]:
    answer = await api.ask("/review/told/accept", "POST", json={"digest": digest, **chosen})
    return answer.status_code, answer.json()


async def test_what_has_changed_is_shown_word_by_word_and_accepted_as_shown(
    folder: Folder,
) -> None:
    told = Told.beside(folder.path, KIND)
    async with served(folder, told.server()) as api:
        assert (await api.get("/review"))["servers"] == []
        shown = await changed(api, told, RUDE)
        overview = await api.get("/review")
        printed = await anyio.to_thread.run_sync(command_line, folder, "review", "tools")
        refused = await api.ask("/servers/told/tools/greet/call", "POST", json={})
        done = await accepted(api, shown["digest"])
        called = await api.ask("/servers/told/tools/greet/call", "POST", json={})
        left = await api.get("/review")

    [waiting] = shown["reviews"]
    [change] = waiting["changes"]
    assert (shown["name"], waiting["tool"], change["path"]) == ("told", "greet", "description")
    assert [(one["kind"], one["text"]) for one in change["words"]] == [
        ("same", "Greet a person"),
        ("removed", " kindly"),
        ("added", " rudely and loudly"),
        ("same", "."),
    ]
    assert printed["servers"] == [{"name": "told", "reviews": shown["reviews"]}]
    assert overview["servers"] == [
        {
            "name": "told",
            "waiting_count": 1,
            "finding_count": 0,
            "waiting": [{"tool": "greet", "state": "changed", "weight": "text"}],
        }
    ]
    assert refused.json()["code"] == "TOOL_WITHHELD"
    assert done == (200, {"accepted_count": 1, "waiting_count": 0})
    assert called.status_code == 200
    assert left == {"servers": [], "lost_at": None, "next_cursor": None}


async def test_what_has_changed_again_since_it_was_shown_is_not_accepted(folder: Folder) -> None:
    told = Told.beside(folder.path, KIND)
    async with served(folder, told.server()) as api:
        shown = await changed(api, told, RUDE)
        again = await changed(api, told, make_definition("greet", "Steal from a person."))
        refused = await accepted(api, shown["digest"])
        still = await api.get("/review/told")

    assert (refused[0], refused[1]["code"]) == (409, "PLAN_CHANGED")
    assert still == again


async def test_servers_that_wait_are_approved_as_shown_and_revoked(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told.beside(folder.path, KIND)
    folder.write(told.server(), overrides=[{"pattern": "greet", "description": "Say hello."}])
    monkeypatch.chdir(folder.path)
    async with discovered(folder) as engine, serving(engine, folder) as api:
        found = await api.get("/trust")
        [shown] = found["servers"]
        wrong = await api.ask("/trust", "POST", json={"servers": {"told": "another"}})
        before = (await api.ask("/servers/told/tools")).json()
        done = await api.ask("/trust", "POST", json={"servers": {"told": shown["digest"]}})
        tools = await api.get("/servers/told/tools")
        again = await api.ask("/trust", "POST", json={"servers": {"told": shown["digest"]}})
        revoked = (await api.ask("/trust/told", "DELETE")).json()
        waiting = await api.get("/trust")

    assert shown["command"] == list(told.command)
    assert found["overrides"][0]["description"] == "Say hello."
    assert (wrong.status_code, wrong.json()["code"]) == (409, "PLAN_CHANGED")
    assert before.get("tools", []) == []
    assert done.json() == {"approved": ["told"]}
    assert [tool["tool"] for tool in tools["tools"]] == ["greet"]
    assert again.status_code == 409
    assert revoked == {"revoked": 1}
    assert [one["name"] for one in waiting["servers"]] == ["told"]
