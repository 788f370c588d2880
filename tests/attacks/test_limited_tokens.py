"""Tokens that show some servers and tools: the others are unknown to them, whatever is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_engine.errors import ConfigurationError
from discovery_engine.view.scope import ScopedCatalogs
from discovery_server.access_tokens import AccessTokens
from discovery_server.api.application import ROUTES
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from discovery_server.token_limits import NO_LIMITS, TokenLimits, checked_limits
from tests.api_server import OWN, Api, serving
from tests.contract.test_api import path_of
from tests.contract.test_views import PATTERNS, WORLDS, world
from tests.engines import Folder, good
from tests.rows import rows
from tests.servers.offerings import World, resource
from tests.unit.server.web import SessionClient, result_of
from tests.unit.server.wire import request

pytestmark = pytest.mark.anyio

HIDDEN = ("attic", "environment", "cellar", "far:")
VIEWS: JSONObject = {"no-pid": {"rules": [{"pattern": "pid", "enabled": False}]}}


@asynccontextmanager
async def placed(tmp_path: Path, **server: Any) -> AsyncIterator[Api]:
    """The servers `good`, `attic` with the same tools, and `cellar` with a resource."""
    folder = Folder(tmp_path)
    cellar = World(tmp_path / "cellar.json", "cellar").offer(resources=[resource("far:/r")])
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


@pytest.mark.thorough
@pytest.mark.requirement("API-30")
@given(WORLDS, st.lists(PATTERNS, min_size=1, max_size=3).map(tuple), st.booleans())
def test_what_a_token_shows_is_what_its_patterns_match_of_what_is_visible(
    tools: Any, patterns: tuple[str, ...], is_of_zoo: bool
) -> None:
    whole = world(tools)
    limits = TokenLimits(("zoo",) if is_of_zoo else (), patterns)

    shown = ScopedCatalogs(limits.scope()).view(whole)

    within = {entry.key for entry in shown.catalog.visible}
    assert within <= {entry.key for entry in whole.catalog.visible}
    assert not is_of_zoo or {key.server for key in within} <= {"zoo"}
    named = {server.name for server in shown.servers()}
    assert named == {part.server for part in shown.catalog.parts.values() if part.entries}
    assert set(shown.settings.by_name) == named


@pytest.mark.thorough
@pytest.mark.requirement("API-30")
@pytest.mark.parametrize("view", [None, "no-pid"])
async def test_no_route_of_the_api_names_what_a_token_does_not_show(
    tmp_path: Path, view: str | None
) -> None:
    async with placed(tmp_path) as api:
        token = limited(api, view, servers=("good", "cellar"), tools=("ec*", "pid"))
        servers = (await api.ask("/servers", token=token)).json()["servers"]
        status = (await api.ask("/status", token=token)).json()
        tools = (await api.ask("/servers/good/tools", token=token)).json()["tools"]
        asked = [
            await api.ask(path, method, token=token, **options)
            for path, method, options in (
                ("/search?query=environment", "GET", {}),
                ("/search?query=environmen&server=attic", "GET", {}),
                ("/search?query=far&kind=resource", "GET", {}),
                ("/servers/attic", "GET", {}),
                ("/servers/atti/tools", "GET", {}),
                ("/servers/good/tools/environmen", "GET", {}),
                ("/servers/good/tools/environment/call", "POST", {"json": {}}),
                ("/servers/cellar/resources/read", "POST", {"json": {"uri": "far:/r"}}),
            )
        ]
        every = [
            await api.ask(path_of(route), route.method, token=token, json={})
            for route in ROUTES
            if route.scope != "admin"
        ]
        called = await api.ask(
            "/servers/good/tools/echo/call", "POST", token=token, json={"arguments": {"text": "x"}}
        )
        metrics = await api.http.get(
            api.address.replace("/api", "/metrics"), headers={"authorization": f"Bearer {token}"}
        )
        counted = await api.get("/metrics")

    expected = ["echo"] if view else ["echo", "pid"]
    assert [one["name"] for one in servers] == ["good"]
    assert (status["server_count"], status["tool_count"]) == (1, len(expected))
    assert [one["tool"] for one in tools] == expected
    for answer in asked[3:]:
        assert answer.status_code == 404, answer.text
    for answer in (*asked, *every):
        echoed = answer.text.replace(str(answer.request.url), "")
        named = [word for word in names_hidden(echoed) if word not in str(answer.request.url)]
        assert not named, (answer.request.url, answer.text)
    assert called.status_code == 200
    assert metrics.status_code == 403
    assert not names_hidden(metrics.text)
    assert {one["server"] for one in counted["servers"]} <= {"", "good"}  # nothing else was called


@pytest.mark.thorough
@pytest.mark.requirement("API-30")
@pytest.mark.parametrize("mode", ["meta", "direct", "dynamic"])
async def test_over_mcp_a_token_finds_and_calls_what_it_shows_and_knows_nothing_else(
    tmp_path: Path, mode: str
) -> None:
    async with placed(tmp_path, mode=mode) as api:
        address = api.address.replace("/api", "/mcp")
        token = limited(api, servers=("good", "cellar"), tools=("good:echo",))
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
            named = "execute_tool" if mode == "meta" else "good__echo"
            arguments: JSONObject = {"text": "hello"}
            if mode == "meta":
                arguments = {"tool": "good:echo", "arguments": arguments}
            called = result_of(await client.call(named, arguments, session=session))
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


@pytest.mark.thorough
@pytest.mark.requirement("API-30")
async def test_clients_of_a_limited_token_are_notified_of_what_it_shows_only(
    tmp_path: Path,
) -> None:
    async with placed(tmp_path, mode="direct") as api:
        address = api.address.replace("/api", "/mcp")
        tokens = (limited(api, servers=("good",)), OWN)
        notified = {token: anyio.Event() for token in tokens}
        async with anyio.create_task_group() as group:

            async def follow(token: str, opened: anyio.Event) -> None:
                async with SessionClient(address, token) as client:
                    session = await client.open()
                    headers = {"mcp-session-id": session}
                    async with client.http.stream("GET", address, headers=headers) as stream:
                        opened.set()
                        async for line in stream.aiter_lines():
                            if "list_changed" in line:
                                notified[token].set()

            for token in tokens:
                opened = anyio.Event()
                group.start_soon(follow, token, opened)
                with anyio.fail_after(60):
                    await opened.wait()
            await api.engine.servers.disable("attic")
            with anyio.fail_after(60):
                await notified[OWN].wait()
            is_of_hidden = notified[tokens[0]].is_set()
            await api.engine.servers.disable("good")
            with anyio.fail_after(60):
                await notified[tokens[0]].wait()
            group.cancel_scope.cancel()

    assert not is_of_hidden


@pytest.mark.requirement("API-31")
def test_a_program_that_knows_no_limits_takes_a_file_with_limits_for_a_newer_one(
    tmp_path: Path,
) -> None:
    tokens = AccessTokens(tmp_path / "tokens.json")
    tokens.create()
    before = json.loads(tokens.path.read_text("utf-8"))["version"]
    value, made = tokens.create(limits=TokenLimits(("good",)))
    during = json.loads(tokens.path.read_text("utf-8"))["version"]
    found = AccessTokens(tokens.path).find(value.encode())
    tokens.revoke(made.id)

    assert (before, during) == (1, 2)
    assert found == made
    assert json.loads(tokens.path.read_text("utf-8"))["version"] == 1


@pytest.mark.requirement("API-31")
@rows("limits", [TokenLimits(("good",)), TokenLimits(tools=("*",))])
def test_a_limited_token_is_never_an_owners(tmp_path: Path, limits: TokenLimits) -> None:
    tokens = AccessTokens(tmp_path / "tokens.json")

    with pytest.raises(ConfigurationError):
        tokens.create(limits=limits, scopes=frozenset({"read", "admin"}))

    assert not tokens.all()


@pytest.mark.requirement("API-31")
@rows("pattern", ["", "!", "/(/", "x" * 2000, "/a/q"])
def test_a_pattern_that_cannot_be_used_makes_no_token(pattern: str) -> None:
    for servers, tools in (((pattern,), ()), ((), (pattern,))):
        with pytest.raises(ConfigurationError) as refused:
            checked_limits(servers, tools)
        assert "--server" in str(refused.value) or "--tool" in str(refused.value)
    assert checked_limits((), ()) == NO_LIMITS


@pytest.mark.requirement("API-31")
def test_a_limited_token_is_made_and_listed_on_the_command_line(tmp_path: Path) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["--data-dir", str(tmp_path), "token", *words])

    made = run("create", "--server", "git*", "--server", "!gitlab", "--tool", "list_*", "--json")
    listed = run("list")
    refused = run("create", "--server", "/(/")
    left = run("list", "--json")

    form = json.loads(made.stdout)
    assert (form["servers"], form["tools"]) == (["git*", "!gitlab"], ["list_*"])
    assert "servers git*, !gitlab; tools list_*" in " ".join(listed.stdout.split())
    assert refused.exit_code == 2
    assert len(json.loads(left.stdout)["tokens"]) == 1
