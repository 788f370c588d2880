"""Tokens that show some servers and tools: the others are unknown to them, whatever is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from discovery_server.access_token import TokenLimits
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from tests.api_server import Api, serving
from tests.engines import Folder, good
from tests.servers.offerings import World, prompt, resource
from tests.unit.server.web import SessionClient, result_of
from tests.unit.server.wire import request

pytestmark = pytest.mark.anyio

HIDDEN = ("attic", "environment", "cellar", "far:")
VIEWS: dict[str, Any] = {"no-pid": {"rules": [{"pattern": "pid", "enabled": False}]}}


@asynccontextmanager
async def placed(tmp_path: Path, **server: Any) -> AsyncIterator[Api]:
    """The servers `good`, `attic` with the same tools, and `cellar` with others."""
    folder = Folder(tmp_path)
    cellar = World(tmp_path / "cellar.json", "cellar")
    cellar.offer(resources=[resource("far:/r")], prompts=[prompt("far:p")])
    folder.write(good(), good("attic"), cellar.server(), views=VIEWS, server=server)
    async with folder.open() as engine, open_notifications(engine) as notifications:
        await engine.refresh()
        gateway = Gateway(engine, notifications.of(engine), subscriptions_of=notifications.of)
        async with serving(engine, folder, gateway) as api:
            yield api


def limited(api: Api, view: str | None = None, **patterns: tuple[str, ...]) -> str:
    return api.tokens.create(view=view, limits=TokenLimits(**patterns))[0]


def names_hidden(text: str) -> list[str]:
    return [word for word in HIDDEN if word in text]


@pytest.mark.requirement("API-30")
async def test_over_mcp_a_token_finds_and_calls_what_it_shows_and_knows_nothing_else(
    tmp_path: Path,
) -> None:
    async with placed(tmp_path) as api:
        address = api.address.replace("/api", "/mcp")
        token = limited(api, servers=("good", "cellar"), tools=("echo",))
        async with SessionClient(address, token) as client:
            session = await client.open()
            texts = [
                (await client.request("POST", session, request(3, method))).text
                for method in ("tools/list", "resources/list", "prompts/list")
            ]
            for tool, arguments in (
                ("list_mcp_servers", {}),
                ("search_tools", {"query": "the environment of the process"}),
                ("list_tools", {"server": "good"}),
                ("list_tools", {"server": "attc"}),
                ("get_tool_details", {"server": "good", "tool": "environ"}),
                ("execute_tool", {"tool": "good:environmen", "arguments": {}}),
                ("good__pid", {}),
            ):
                texts.append((await client.call(tool, arguments, session=session)).text)
            read = await client.request("POST", session, request(4, "resources/read", uri="far:/r"))
            hidden = await client.call(
                "execute_tool", {"tool": "attic:echo", "arguments": {"text": "x"}}, session=session
            )
            echo = {"tool": "good:echo", "arguments": {"text": "hello"}}
            called = result_of(await client.call("execute_tool", echo, session=session))
        async with SessionClient(address, limited(api, tools=("good:echo",))) as other:
            elsewhere = await other.request("POST", session)
        log = await api.get("/logs", kind="call")

    assert not [text for text in texts if names_hidden(text)]
    assert "error" in read.json()
    assert "error" in hidden.json() or hidden.json()["result"]["isError"]
    assert "hello" in json.dumps(called["content"])
    assert elsewhere.status_code == 404
    done = [(one["server"], one["tool"]) for one in log["entries"] if one["outcome"] == "ok"]
    assert done == [("good", "echo")]


@pytest.mark.requirement("API-30")
def test_a_limited_token_is_made_and_listed_and_is_never_an_owners(tmp_path: Path) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["--data-dir", str(tmp_path), "token", *words])

    made = run("create", "--server", "git*", "--server", "!gitlab", "--tool", "list_*", "--json")
    listed = run("list")
    refused = [
        run("create", option, pattern)
        for option in ("--server", "--tool")
        for pattern in ("", "!", "/(/", "x" * 2000, "/a/q")
    ]
    refused.append(run("create", "--server", "good", "--scope", "admin"))
    left = run("list", "--json")

    form = json.loads(made.stdout)
    assert (form["servers"], form["tools"]) == (["git*", "!gitlab"], ["list_*"])
    assert "servers git*, !gitlab; tools list_*" in " ".join(listed.stdout.split())
    assert {one.exit_code for one in refused} == {2}
    assert len(json.loads(left.stdout)["tokens"]) == 1
