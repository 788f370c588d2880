"""Servers added, changed and removed over the API: specs/api.md."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import yaml

from discovery_engine import load_settings
from discovery_server.access_token import TokenLimits
from tests import engines
from tests.api_server import OWN, Api, served, serving
from tests.engines import Folder, entry, good
from tests.servers.programs import eventually
from tests.unit.server.web import SessionClient

pytestmark = pytest.mark.anyio

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
NEW = {"name": "new", "entry": {**entry(good("new")), "env": {"LOG_LEVEL": "debug"}}}


async def shown(api: Api, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    answer = await api.ask(path, method, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def sent(api: Api, path: str, method: str, **options: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.ask(path, method, **options)
    return answer.status_code, answer.json()


@pytest.mark.requirement("API-22")
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


@pytest.mark.requirement("API-22")
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


@pytest.mark.requirement("API-22")
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


@pytest.mark.requirement("API-22", "API-50")
async def test_a_server_is_removed_as_shown_and_its_secrets_are_kept(folder: Folder) -> None:
    async with served(folder) as api:
        await api.ask("/secrets/other/TOKEN", "PUT", json={"value": SECRET})
        plan = (await sent(api, "/servers/other", "DELETE"))[1]
        refused, removed, again = [
            await sent(api, "/servers/other", "DELETE", params={"digest": digest})
            for digest in ("no", plan["digest"], plan["digest"])
        ]
        foreign = await sent(api, "/servers/good", "DELETE", params={"secrets": "delete"})
        left = [server["name"] for server in (await api.get("/servers"))["servers"]]
        secrets = await api.get("/secrets")

    assert (plan["verb"], plan["written"], plan["kept_secrets"]) == (
        "remove",
        False,
        ["other/TOKEN"],
    )
    assert (refused[0], refused[1]["code"]) == (409, "PLAN_CHANGED")
    assert (removed[0], removed[1]["written"], removed[1]["deleted_secrets"]) == (200, True, [])
    assert (again[0], again[1]["code"]) == (404, "SERVER_NOT_FOUND")
    assert foreign[0] == 404
    assert (left, secrets) == (["good"], {"names": ["other/TOKEN"]})


BLOCK = """{
  // of Cursor
  "mcpServers": {
    "my mail": {"type": "stdio", "command": "npx", "args": ["-y"], "env": {"K": "${env:K}"}},
    "web": {"type": "streamable-http", "url": "https://example.com/mcp", "disabled": true},
    "broken": {"args": []},
  },
}"""


@pytest.mark.requirement("API-22")
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


@pytest.mark.requirement("API-22")
async def test_the_file_of_a_client_is_registered_without_servers_whose_tools_it_limits(
    folder: Folder,
) -> None:
    file = folder.path / "config.toml"
    some = '[mcp_servers.some]\ncommand = "some"\nenabled_tools = ["a"]\n'
    file.write_text(f'[mcp_servers.mail]\ncommand = "mail"\n{some}', "utf-8")
    async with served(folder) as api:
        asked = {"path": str(file), "client": "codex"}
        plan = await shown(api, "/servers/sync", asked)
        await shown(api, "/servers/sync", {**asked, "digest": plan["digest"]})
        known = [one["name"] for one in (await api.get("/servers"))["servers"]]

    assert [one["name"] for one in plan["plans"]] == ["mail"]
    assert [one["name"] for one in plan["errors"]] == ["some"]
    assert known == ["good", "mail", "other"]


SERVERS: dict[str, dict[str, Any]] = {
    "plain": {"command": "/usr/bin/mail", "args": ["a b", "'", "é"], "env": {"LEVEL": "debug"}},
    "remote": {"url": "https://mail.example.com/mcp", "headers": {"Accept": "text/plain"}},
    "mail": {
        "command": "npx",
        "args": ["-y", "@acme/mail@1.2.3", "--token", SECRET],
        "env": {"TOKEN": "${TOKEN}", "API_KEY": SECRET, "KEPT": "${secret:mail/KEPT}"},
    },
    "login": {
        "url": "https://mail.example.com/mcp",
        "headers": {"Authorization": "Bearer ${MAIL_TOKEN}", "X-Api-Key": SECRET},
    },
}
FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
}


@asynccontextmanager
async def exporting(folder: Folder) -> AsyncIterator[Api]:
    folder.config.write_text(json.dumps({"servers": SERVERS}), "utf-8")
    async with folder.open() as engine, serving(engine, folder) as api:
        yield api


def transport_of(home: Path, client: str, name: str) -> Any:
    """What a configuration reads from the file of a client."""
    configuration = home / "discovery.yaml"
    configuration.write_text(json.dumps({"sources": [{"type": client}]}), "utf-8")
    elsewhere = home / "elsewhere"
    settings = load_settings(configuration, environ={}, cwd=elsewhere, home=home)
    return settings.by_name[name].transport  # type: ignore[index]


@pytest.mark.requirement("API-25")
async def test_what_is_exported_is_the_same_server_to_the_reader_of_the_client(
    folder: Folder,
) -> None:
    faults = []
    async with exporting(folder) as api:
        own = load_settings(folder.config).by_name
        for client, path in FILES.items():
            for name in ("plain", "remote"):
                home = folder.path / client / name
                file = home / path
                file.parent.mkdir(parents=True)
                exported = await api.get(f"/servers/{name}/entry", client=client)
                file.write_text(exported["text"], "utf-8")
                transport, expected = transport_of(home, client, name), own[name].transport  # type: ignore[index]
                parts = ("command", "args", "env") if name == "plain" else ("url", "headers")
                if any(getattr(transport, one) != getattr(expected, one) for one in parts):
                    faults.append((client, name, transport))
        unknown = await api.ask("/servers/plain/entry?client=nothing")
        nobody = await api.ask("/servers/nobody/entry?client=cursor")

    assert faults == []
    assert (unknown.status_code, nobody.status_code) == (422, 404)


@pytest.mark.requirement("API-25")
async def test_no_value_of_a_secret_is_exported_and_references_are_those_of_the_client(
    folder: Folder,
) -> None:
    entries = {}
    async with exporting(folder) as api:
        for client in ("discovery", *FILES):
            exported = await api.get("/servers/mail/entry", client=client)
            login = await api.get("/servers/login/entry", client=client)
            assert SECRET not in json.dumps([exported, login])
            assert {"TOKEN", "KEPT"} <= set(exported["values"])
            assert {"MAIL_TOKEN", "X-Api-Key"} <= set(login["values"])
            read = {"codex": tomllib.loads, "discovery": yaml.safe_load}.get(client, json.loads)
            [entries[client]] = [one["mail"] for one in read(exported["text"]).values()]
            if client == "claude-code":
                command = exported["command"]

    assert entries["discovery"]["env"]["KEPT"] == "${secret:mail/KEPT}"
    assert entries["claude-code"]["env"]["TOKEN"] == "${TOKEN}"
    assert entries["cursor"]["env"]["TOKEN"] == "${env:TOKEN}"
    assert entries["claude-desktop"]["env"]["TOKEN"] == "<TOKEN>"
    assert entries["codex"]["env_vars"] == ["TOKEN"]
    assert command.startswith("claude mcp add-json mail ")


TRANSIENT_SECRET = "s3cr3t-of-the-transient-server"


def transient_entry(name: str = "good", **more: object) -> dict[str, Any]:
    written = engines.entry(good(name))
    env = {**written["env"], "API_TOKEN": TRANSIENT_SECRET}
    return {"command": written["command"], "args": written["args"], "env": env, **more}


async def start(api: Api, **more: object) -> dict[str, Any]:
    plan = (await api.ask("/transient", "POST", json={"entry": transient_entry(**more)})).json()
    assert TRANSIENT_SECRET not in json.dumps(plan)
    asked = {"entry": transient_entry(**more), "digest": plan["digest"]}
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
        await api.ask(
            f"{one}/tools/echo/call", "POST", json={"arguments": {"text": TRANSIENT_SECRET}}
        )
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
        assert TRANSIENT_SECRET.encode() not in data, name
        assert made["handle"].encode() not in data, name
    assert not (folder.data / "transient").exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
