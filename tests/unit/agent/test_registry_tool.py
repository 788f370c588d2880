"""The meta-tool `registry`, on real servers: specs/registry-tool.md."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_engine.agent.dispatch import call
from discovery_engine.agent.meta_arguments import Caller, meta_tools
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.engine.owner.agent_requests import AgentRequestNotFoundError
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.protocol import CLIENT_INFO
from discovery_engine.tools.meta_tools import META_TOOLS
from discovery_server.gateway import Gateway
from tests.engines import Folder, good
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, request, served

pytestmark = pytest.mark.anyio

VIEWS = {"echoes": {"rules": [{"pattern": "echo", "enabled": True}]}}


@dataclass
class Agent:
    engine: Engine
    scope: ScopedEngine
    name: str = "an agent"

    async def __call__(self, action: str, **arguments: Any) -> JSONObject:
        tool = meta_tools(self.engine.settings)["registry"]
        caller = Caller(CallbackClient(id=self.name))
        return await call(self.scope, tool, {"action": action, **arguments}, caller)

    async def answer(self, action: str, **arguments: Any) -> JSONObject:
        result = await self(action, **arguments)
        assert not result.get("isError"), result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        answer: JSONObject = result["structuredContent"]
        return answer

    async def mistake(self, action: str, **arguments: Any) -> JSONObject:
        result = await self(action, **arguments)
        assert result["isError"]
        error: JSONObject = result["_meta"]["discovery/error"]
        return error


@asynccontextmanager
async def agent_of(
    folder: Folder, allowed: str = "ask", view: str | None = None, **sections: Any
) -> AsyncIterator[Agent]:
    """An agent whose marketplace is a list of the team."""
    off = good("off", enabled=False)
    package = {"registryType": "npm", "identifier": "@acme/files", "version": "1.2.0"}
    listed = [{"name": "acme/files", "description": "Files", "packages": [package]}]
    team = folder.config.with_name("team.yaml")
    team.write_text(json.dumps({"servers": listed}), "utf-8")
    sources = {"sources": [{"type": "file", "path": str(team)}]}
    server = {"registryTool": allowed}
    folder.write(
        *(good(tags=("tests",)), off), server=server, views=VIEWS, marketplace=sources, **sections
    )
    async with folder.open() as engine:
        await engine.refresh()
        yield Agent(engine, engine.in_view(view) if view else engine)


async def command_line(folder: Folder, *words: str) -> tuple[int, JSONObject]:
    """The owner's command, beside the gateway of the agent."""
    options = ["--config", str(folder.config), "--data-dir", str(folder.data), "--json"]
    answer = await anyio.to_thread.run_sync(CliRunner().invoke, cli, [*options, *words])
    return answer.exit_code, json.loads(answer.stdout)


@pytest.mark.requirement("RGT-1")
async def test_the_tool_is_there_only_where_the_owner_has_switched_it_on(folder: Folder) -> None:
    async with agent_of(folder, "off") as agent:
        assert list(meta_tools(agent.engine.settings))[:5] == list(META_TOOLS)
        assert "registry" not in meta_tools(agent.engine.settings)


@pytest.mark.requirement("RGT-1")
async def test_reading_agents_cannot_even_ask(folder: Folder) -> None:
    async with agent_of(folder, "read") as agent:
        named = meta_tools(agent.engine.settings)["registry"].properties["action"]["enum"]
        errors = [await agent.mistake("install", name="x"), await agent.mistake("sync")]
        unknown = await agent.mistake("explode")
        requests = await agent.engine.requests.list()

    assert "install" not in named
    assert [error["code"] for error in errors] == ["NOT_ALLOWED"] * 2
    assert unknown["code"] == "VALIDATION_ERROR"
    assert requests == ()


@pytest.mark.requirement("RGT-2")
async def test_a_tool_is_found_with_what_its_call_needs(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        found = await agent.answer("find_tool", query="echo a text")
        several = await agent.answer("find_tools", intents=["echo a text", "bake bread in Rome"])
        searched = await agent.engine.search("echo a text")

    assert (found["found"], found["call_as"]) == (True, "mcp__good__echo")
    assert found["confidence"] in ("high", "medium")
    assert found["score"] == round(searched.hits[0].relevance, 4)
    assert len(found["required_args"]) + found["optional_count"] == len(
        searched.hits[0].entry.tool.parameters
    )
    first, second = several["results"]
    assert (first["intent"], first["call_as"]) == ("echo a text", "mcp__good__echo")
    assert len(first["other_matches"]) <= 2
    assert second["found"] is False or second["confidence"] == "low"


@pytest.mark.requirement("RGT-2")
async def test_a_schema_is_looked_up_by_its_exact_name(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        for name in ("mcp__good__echo", "good:echo", "good__echo"):
            found = await agent.answer("get_schema", call_as=name)
            assert (found["found"], found["call_as"]) == (True, "mcp__good__echo")
            assert found["input_schema"]["type"] == "object"
        missing = await agent.answer("get_schema", name="good:eco")

    assert missing["found"] is False
    assert missing["did_you_mean"][0].endswith("echo")


@pytest.mark.requirement("RGT-2")
async def test_a_call_is_a_call_of_execute_tool(folder: Folder) -> None:
    rules = [{"pattern": "pid", "enabled": False}]
    async with agent_of(folder, toolRules=rules) as agent:
        result = await agent("proxy_call", call_as="mcp__good__echo", arguments={"text": "hi"})
        named = await agent("proxy_call", server="good", tool="echo", arguments={"text": "hi"})
        unknown = await agent("proxy_call", call_as="mcp__good__eco", arguments={})
        hidden = await agent.mistake("proxy_call", call_as="mcp__good__pid")

    assert result["content"] == named["content"]
    assert "hi" in result["content"][0]["text"]
    assert unknown["isError"]
    assert "echo" in unknown["content"][0]["text"]
    assert unknown["structuredContent"]["did_you_mean"] == ["mcp__good__echo"]
    assert unknown["structuredContent"]["error"]["code"] == "TOOL_NOT_FOUND"
    assert hidden["code"] == "TOOL_DISABLED"


@pytest.mark.requirement("RGT-2")
async def test_servers_are_listed_with_what_is_wanted_and_what_is_observed(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        await agent.engine.execute("good", "echo", {"text": "1"})
        listed = await agent.answer("list")
        tagged = await agent.answer("list", query="good")
        status = await agent.answer("status")

    servers = {server["name"]: server for server in listed["servers"]}
    assert (servers["good"]["active"], servers["off"]["active"]) == (True, False)
    assert servers["off"]["health_status"] == "disabled"
    assert servers["good"]["tool_count"] == 3
    assert tagged["servers"][0]["name"] == "good"
    assert (status["active_count"], status["requests"]) == (1, [])
    assert status["servers"][0]["tools"] == ["echo", "environment", "pid"]


@pytest.mark.requirement("RGT-6")
async def test_an_agent_asks_and_its_owner_decides(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        asked = await agent.answer("activate", name="off")
        again = await agent.answer("activate", name="off")
        before = agent.engine.view.server("off").state
        code, listed = await command_line(folder, "requests")
        done, accepted = await command_line(folder, "review", "accept", asked["request"], "--yes")
        await agent.engine.reload()
        after = await agent.answer("activate", name="off")
        status = await agent.answer("status")

    assert (asked["status"], asked["request"]) == ("requested", again["request"])
    assert before == "disabled"
    assert (code, [one["name"] for one in listed["requests"]]) == (0, ["off"])
    assert (done, accepted["state"]) == (0, "accepted")
    assert after["status"] == "already_active"
    assert [one["status"] for one in status["requests"]] == ["accepted"]


@pytest.mark.requirement("RGT-6")
async def test_what_was_declined_is_not_asked_again_and_the_agent_reads_why(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        asked = await agent.answer("install", name="files", command="npx", args=["-y", "files"])
        _, declined = await command_line(
            folder, "review", "decline", asked["request"], "--reason", "not needed"
        )
        again = await agent.answer("install", name="files", command="npx", args=["-y", "files"])
        waiting = await agent.engine.requests.list("waiting")

    assert declined["state"] == "declined"
    assert (again["status"], again["outcome"]) == ("declined", "not needed")
    assert waiting == ()
    assert "files" not in folder.config.read_text("utf-8")


@pytest.mark.requirement("RGT-6")
async def test_what_an_agent_wrote_itself_is_added_as_the_owner_saw_it(folder: Folder) -> None:
    server = good("third")
    transport: Any = server.transport
    async with agent_of(folder) as agent:
        asked = await agent.answer(
            "install", name="third", command=transport.command, args=list(transport.args)
        )
        known = await agent.answer("install", name="good")
        values = await agent.mistake("install", name="x", command="x", env={"TOKEN": "secret"})
        request = await agent.engine.requests.accept(asked["request"])
        third = agent.engine.view.server_settings("third")

    assert known["status"] == "already_registered"
    assert values["code"] == "VALIDATION_ERROR"
    assert (request.state, request.outcome) == ("accepted", "third")
    assert third.transport is not None
    assert list(third.transport.args) == list(transport.args)


@pytest.mark.requirement("RGT-6")
async def test_what_a_setup_file_would_register_is_shown_and_nothing_else_is(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tmp_path / "setup.json"
    setup.write_text(json.dumps([{"name": "sneaky", "command": "sh", "args": ["-c", "id"]}]))
    monkeypatch.setenv("DISCOVERY_SETUP_FILE", str(setup))
    async with agent_of(folder) as agent:
        asked = await agent.answer("sync")
        options = ["--config", str(folder.config), "--data-dir", str(folder.data)]
        words = [*options, "review", "accept", asked["request"]]
        shown = await anyio.to_thread.run_sync(CliRunner().invoke, cli, words)
        names = [server.name for server in await agent.engine.servers.list()]

    assert "sh -c id" in shown.stdout
    assert shown.exit_code == 4
    assert "sneaky" not in names


@pytest.mark.requirement("RGT-6")
async def test_what_an_agent_wrote_runs_in_a_sandbox(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        asked = await agent.answer("install", name="third", command="sh", args=["-c", "id"])
        await agent.engine.requests.accept(asked["request"])
        [third] = [one for one in agent.engine.settings.servers if one.name == "third"]
        named = await agent.mistake("install", name="a__b", command="sh")

    assert third.sandbox is not None
    assert third.sandbox.kind == "auto"
    assert named["code"] == "VALIDATION_ERROR"


@pytest.mark.requirement("RGT-6")
async def test_agents_cannot_flood_their_owner(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        for number in range(20):
            await agent.answer("install", name=f"server-{number}", command="x")
        refused = await agent.mistake("install", name="one-more", command="x")
        long = await agent.mistake("install", name="x", command="x", args=["y" * 5000])

    assert refused["code"] == long["code"] == "REQUEST_REFUSED"


@pytest.mark.requirement("RGT-6")
@pytest.mark.parametrize("text", ["${AWS_KEY}", "${secret:good/TOKEN}", '${command:["id"]}'])
async def test_a_request_never_refers_to_values_of_the_owner(folder: Folder, text: str) -> None:
    async with agent_of(folder) as agent:
        refused = await agent.mistake("install", name="x", command="x", args=["--to", text])
        named = await agent.mistake("install", name=text)
        requests = await agent.engine.requests.list()

    assert {refused["code"], named["code"]} == {"REQUEST_REFUSED"}
    assert requests == ()


@pytest.mark.requirement("RGT-8")
async def test_a_client_of_a_view_has_what_the_view_shows_and_cannot_ask(folder: Folder) -> None:
    async with agent_of(folder, view="echoes") as agent:
        listed = await agent.answer("status")
        hidden = await agent("proxy_call", call_as="mcp__good__pid", arguments={})
        errors = [await agent.mistake("browse"), await agent.mistake("sync")]

    assert [server["tools"] for server in listed["servers"]] == [["echo"]]
    assert hidden["isError"]
    assert [error["code"] for error in errors] == ["NOT_ALLOWED"] * 2


@pytest.mark.requirement("RGT-6")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_clients_of_stdio_are_told_apart_and_see_their_own_requests(
    folder: Folder, era: str
) -> None:
    async def ask(wire: Wire, **arguments: str) -> JSONObject:
        message = request(7, "tools/call", name="registry", arguments=arguments)
        if era == "modern":
            message["params"]["_meta"] = MODERN | {CLIENT_INFO: {"name": "Ada", "version": "1"}}
        result: JSONObject = (await wire.ask(message))["result"]["structuredContent"]
        return result

    async with agent_of(folder) as agent:
        gateway = Gateway(agent.engine)
        async with served(gateway) as first, served(gateway) as second:
            if era == "handshake":
                for wire, name in ((first, "Ada"), (second, "A\nd" + "a" * 100)):
                    info = {"clientInfo": {"name": name, "version": "1"}}
                    await wire.ask(request(1, "initialize", **HANDSHAKE | info))
                    await wire.send(INITIALIZED)
            await ask(first, action="deactivate", name="good")
            await ask(second, action="activate", name="off")
            seen = [(await ask(wire, action="status"))["requests"] for wire in (first, second)]
        clients = [one.client for one in await agent.engine.requests.list()]

    assert [[one["name"] for one in requests] for requests in seen] == [["good"], ["off"]]
    assert re.fullmatch(r"Ada \([0-9a-f]{8}\)", clients[0])
    assert re.fullmatch(r"A ?da{0,62} \([0-9a-f]{8}\)", clients[1])
    assert clients[0] != clients[1]


@pytest.mark.requirement("RGT-6")
async def test_without_a_yes_of_the_owner_nothing_is_done(folder: Folder) -> None:
    async with agent_of(folder) as agent:
        asked = await agent.answer("uninstall", name="good")
        code, shown = await command_line(folder, "review", "accept", asked["request"])
        await agent.engine.reload()
        assert agent.engine.view.server("good").state != "disabled"

    assert (code, shown["state"]) == (4, "waiting")


@pytest.mark.requirement("RGT-6")
async def test_a_request_that_cannot_be_carried_out_has_failed_with_the_reason(
    folder: Folder,
) -> None:
    async with agent_of(folder) as agent:
        asked = await agent.answer("deactivate", name="good")
        await agent.engine.servers.remove("good")
        with pytest.raises(DiscoveryError):
            await agent.engine.requests.accept(asked["request"])
        [request] = await agent.engine.requests.list()

    assert request.state == "failed"
    assert "SERVER_NOT_FOUND" in request.outcome


@pytest.mark.requirement("RGT-6")
async def test_a_request_is_decided_once_however_many_decide_at_once(folder: Folder) -> None:
    outcomes: list[str] = []
    async with agent_of(folder) as agent:
        asked = await agent.answer("activate", name="off")

        async def decide() -> None:
            try:
                outcomes.append((await agent.engine.requests.accept(asked["request"])).state)
            except AgentRequestNotFoundError:
                outcomes.append("refused")

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(decide)

    assert sorted(outcomes) == ["accepted", *["refused"] * 4]
