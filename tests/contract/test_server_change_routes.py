"""Servers added, changed and removed over the API: specs/api.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_server import Api, served
from tests.engines import Folder, entry, good

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-22")]

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
NEW = {"name": "new", "entry": {**entry(good("new")), "env": {"LOG_LEVEL": "debug"}}}


async def shown(api: Api, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    answer = await api.ask(path, method, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def sent(api: Api, path: str, method: str, **options: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.ask(path, method, **options)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("where", ["file", "registry"])
async def test_a_server_is_added_as_shown_and_used_at_once(folder: Folder, where: str) -> None:
    async with served(folder) as api:
        plan = await shown(api, "/servers", {**NEW, "to": where})
        before = [one["name"] for one in (await api.get("/servers"))["servers"]]
        refused = await sent(api, "/servers", "POST", json={**NEW, "to": where, "digest": "no"})
        added = await sent(
            api, "/servers", "POST", json={**NEW, "to": where, "digest": plan["digest"]}
        )
        tools = await api.get("/servers/new/tools")
        again = await sent(api, "/servers", "POST", json={**NEW, "to": where})

    assert (plan["where"], plan["written"], plan["verb"]) == (where, False, "add")
    assert "debug" in plan["diff"]
    assert before == ["good", "other"]
    assert (refused[0], refused[1]["code"]) == (409, "PLAN_CHANGED")
    assert added[0] == 200
    assert (added[1]["server"]["name"], added[1]["written"]) == ("new", True)
    assert tools["tools"]
    assert again[0] == 409


async def test_a_secret_of_an_entry_is_stored_and_shown_nowhere(folder: Folder) -> None:
    body = {"name": "new", "entry": {**entry(good("new")), "env": {"GITHUB_TOKEN": SECRET}}}
    async with served(folder) as api:
        plan = await shown(api, "/servers", body)
        added = await sent(api, "/servers", "POST", json={**body, "digest": plan["digest"]})
        kept = await api.get("/servers/new/entry")
        names = await api.get("/secrets")

    assert SECRET not in json.dumps([plan, added, kept])
    assert SECRET not in folder.config.read_text("utf-8")
    assert kept["entry"]["env"] == {"GITHUB_TOKEN": "${secret:new/GITHUB_TOKEN}"}
    assert names == {"names": ["new/GITHUB_TOKEN"]}


@pytest.mark.thorough
async def test_a_secret_that_stands_in_the_file_is_shown_by_no_plan(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        written = json.loads(folder.config.read_text("utf-8"))
        written["servers"]["other"]["env"] = {"GITHUB_TOKEN": SECRET, "MODE": "quiet"}
        written["servers"]["broken"] = {"commnd": "x", "env": {"API_KEY": f"{SECRET}9"}}
        written["search"] = {"embeddings": {"provider": "none", "apiKey": f"{SECRET}7"}}
        folder.config.write_text(json.dumps(written), "utf-8")
        await api.ask("/reload", "POST", json={})
        entry_of = await api.get("/servers/other/entry")
        addition = await shown(api, "/servers", NEW)
        change = await shown(api, "/servers/other", {"changes": {"description": "A."}}, "PATCH")
        removal = await shown(api, "/servers/other", {}, "DELETE")
        broken = await shown(api, "/servers/broken", {}, "DELETE")

    assert SECRET not in json.dumps([entry_of, addition, change, removal, broken])
    assert "GITHUB_TOKEN" in removal["diff"]
    assert "quiet" in removal["diff"]
    assert "debug" in addition["diff"]


async def test_a_change_is_a_merge_patch_of_the_entry(folder: Folder) -> None:
    changes = {"description": "Echoes.", "env": {"A": "1", "LOG_LEVEL": None}, "tags": ["x"]}
    async with served(folder) as api:
        plan = await shown(api, "/servers", NEW)
        await api.ask("/servers", "POST", json={**NEW, "digest": plan["digest"]})
        change = await shown(api, "/servers/new", {"changes": changes}, "PATCH")
        refused = await sent(
            api, "/servers/new", "PATCH", json={"changes": {}, "digest": change["digest"]}
        )
        done = await sent(
            api, "/servers/new", "PATCH", json={"changes": changes, "digest": change["digest"]}
        )
        kept = (await api.get("/servers/new/entry"))["entry"]
        tools = await api.get("/servers/new/tools")
        wrong = await sent(api, "/servers/new", "PATCH", json={"changes": {"command": None}})

    assert (refused[0], done[0]) == (409, 200)
    assert done[1]["server"]["tags"] == ["x"]
    assert (kept["description"], list(kept["env"])) == ("Echoes.", ["A"])
    assert tools["tools"]
    assert (wrong[0], wrong[1]["code"]) == (409, "CONFIGURATION_ERROR")


@pytest.mark.requirement("API-22", "CFG-50")
async def test_a_change_keeps_the_comments_of_the_file_or_names_those_that_go(
    folder: Folder,
) -> None:
    written = entry(good("good"))
    text = (
        "servers:\n  good:\n    # the one of the team\n"
        f"    command: {json.dumps(written['command'])}  # of this machine\n"
        f"    args: {json.dumps(written['args'])}\n"
        "    env:\n      LEVEL: info  # louder\n"
        "      # not needed any more\n      MODE: x  # why?\n"
    )
    async with served(folder) as api:
        folder.config.write_text(text, "utf-8")
        await api.ask("/reload", "POST", json={})
        kept = await shown(api, "/servers/good", {"changes": {"env": {"LEVEL": "w"}}}, "PATCH")
        fewer = await shown(api, "/servers/good", {"changes": {"env": None}}, "PATCH")
        body = {"changes": {"env": {"LEVEL": "w"}}, "digest": kept["digest"]}
        done = await sent(api, "/servers/good", "PATCH", json=body)

    assert kept["warnings"] == []
    assert done[0] == 200
    assert folder.config.read_text("utf-8") == text.replace("LEVEL: info", "LEVEL: w")
    goes = "this comment of the file goes, since it stands in what changes: "
    comments = ("# louder", "# not needed any more", "# why?")
    assert fewer["warnings"] == [f"{goes}`{one}`" for one in comments]


BLOCK = """{
  // of Cursor
  "mcpServers": {
    "my mail": {"type": "stdio", "command": "npx", "args": ["-y"], "env": {"K": "${env:K}"}},
    "web": {"type": "streamable-http", "url": "https://example.com/mcp", "disabled": true},
    "broken": {"args": []},
  },
}"""


async def test_the_servers_of_a_pasted_block_are_read_in_our_form(folder: Folder) -> None:
    async with served(folder) as api:
        read = (await shown(api, "/servers/read", {"text": BLOCK}))["servers"]
        bare = await shown(api, "/servers/read", {"text": '{"a": {"command": "x"}}'})
        alone = await shown(api, "/servers/read", {"text": '{"url": "https://a.example"}'})
        known = [one["name"] for one in (await api.get("/servers"))["servers"]]
        refused = [
            await sent(api, "/servers/read", "POST", json={"text": text})
            for text in ("{", "", '{"a": "b"}', "hello", "[1]", '{"mcpServers": {}}')
        ]

    mail, web, broken = read
    assert mail == {
        "name": "my-mail",
        "entry": {"command": "npx", "args": ["-y"], "env": {"K": "${K}"}},
        "notes": ["it is called 'my-mail' here"],
        "problem": "",
    }
    assert (web["name"], web["entry"]["url"]) == ("web", "https://example.com/mcp")
    assert web["entry"]["enabled"] is False
    assert broken["entry"] is None
    assert "it has no command" in broken["problem"]
    assert bare["servers"][0]["entry"] == {"command": "x"}
    assert (alone["servers"][0]["name"], len(alone["servers"])) == ("", 1)
    assert known == ["good", "other"]
    for status, form in refused:
        assert status == 409, form
        assert "mcpServers" in json.dumps(form)
