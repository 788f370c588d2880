"""Agents that people have, connected as people connect them, with a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring_clients
from tests.e2e.commands import need
from tests.e2e.serving import REAL_SERVERS
from tests.servers.model_endpoint import DONE, Call, model_endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(180)]

DISCOVERY = str(Path(sys.executable).parent / "discovery")
META_TOOLS = (
    "execute_tool", "get_tool_details", "list_mcp_servers", "list_tools", "read_result",
    "search_tools",
)  # fmt: skip
CALLS: list[Call] = [
    ("search_tools", {"query": "get current time in a timezone"}),
    ("execute_tool", {"tool": "time:get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}),
]


@dataclass(frozen=True)
class Agent:
    """`{address}` stands for the endpoint of its model."""

    client: str
    """Its name for `discovery connect`."""
    program: str
    options: tuple[str, ...]
    path: str
    """Of its file, in a home."""
    content: str
    """Of that file, before."""
    environ: dict[str, str] = field(default_factory=dict)


CLAUDE_CODE = Agent(
    client="claude-code",
    program="claude",
    options=("--allowedTools", "mcp__discovery", "-p"),
    path=".claude.json",
    content='{"numStartups": 3}\n',
    environ={
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": "{address}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MCP_CONNECTION_NONBLOCKING": "0",  # its first request waits for servers
    },
)
CODEX = Agent(
    client="codex",
    program="codex",
    options=(
        "exec", "--skip-git-repo-check",
        # Nobody is there who could agree to `execute_tool`, which may change something.
        "-c", 'mcp_servers.discovery.default_tools_approval_mode="approve"',
        "-c", "mcp_servers.discovery.required=true",  # its first request waits for it
    ),
    path=".codex/config.toml",
    content="""\
# mine
model = "scripted"
model_provider = "here"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.here]
name = "here"
base_url = "{address}/v1"
wire_api = "responses"
""",
)  # fmt: skip
GEMINI_CLI = Agent(
    client="gemini-cli",
    program="gemini",
    options=("--skip-trust", "--yolo", "--model", "gemini-2.5-pro", "-p"),
    path=".gemini/settings.json",
    content="""\
{
  // mine
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}
""",
    environ={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{address}"},
)


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    need("time")
    try:
        return bring_clients(install=False)
    except NodeToolsMissingError as missing:
        pytest.skip(f"agents of others: {missing}")


class Person:
    """Somebody with a home, a configuration and one server."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.configuration = home / "discovery.yaml"
        self.configure()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "DISCOVERY_CONFIG": str(self.configuration),
            "DISCOVERY_DATA_DIR": str(home / "data"),
        }

    def configure(self, **sections: Any) -> None:
        time = {"command": str(REAL_SERVERS / "time" / "bin" / "mcp-server-time")}
        self.configuration.write_text(json.dumps({"servers": {"time": time}, **sections}), "utf-8")

    def write(self, path: str, content: str) -> Path:
        file = self.home / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, "utf-8")
        return file

    def run(self, *command: str, **environ: str) -> str:
        """What it prints, in the person's home; it must succeed."""
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd=self.home,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def person(tmp_path: Path) -> Person:
    person = Person(tmp_path)
    person.run(DISCOVERY, "refresh")  # a first search waits three seconds for servers, no longer
    return person


@pytest.mark.requirement("CON-1", "CON-3", "SRV-62")
@pytest.mark.parametrize("agent", [CLAUDE_CODE, CODEX, GEMINI_CLI], ids=lambda one: one.client)
def test_agent_searches_and_calls_through_the_entry_that_connect_writes(
    person: Person, tools: NodeTools, agent: Agent
) -> None:
    with model_endpoint(CALLS) as (address, turns):
        before = agent.content.replace("{address}", address)
        file = person.write(agent.path, before)
        person.run(DISCOVERY, "connect", agent.client, "--yes")
        connected = file.read_bytes()
        environ = {name: value.format(address=address) for name, value in agent.environ.items()}

        command = (*tools.client(agent.program), *agent.options, "What time is it in Tokyo?")
        said = person.run(*command, **environ)

    assert DONE in said
    for name in META_TOOLS:
        assert any(offered.endswith(name) for offered in turns[0].tools), turns[0].tools
    answer, result = turns[-1].results
    assert "time:get_current_time(timezone" in answer
    assert "+09:00" in result

    left = file.read_bytes()
    person.run(DISCOVERY, "connect", agent.client, "--undo", "--yes")
    if left == connected:
        assert file.read_text("utf-8") == before
    else:  # it keeps its own notes in the same file
        assert json.loads(file.read_bytes()) == without_discovery(json.loads(left))


HOW_LATE = "how late is it abroad"
"""A request of which no word stands in the tool's name or description."""


@pytest.mark.requirement("MOD-40")
@pytest.mark.parametrize("agent", [CLAUDE_CODE, CODEX, GEMINI_CLI], ids=lambda one: one.client)
def test_agent_calls_a_tool_as_its_host_finds_tools(
    person: Person, tools: NodeTools, agent: Agent
) -> None:
    person.configure(
        server={"mode": "auto", "pins": ["time:convert_time"]},
        overrides=[{"pattern": "time:get_current_time", "examples": [HOW_LATE]}],
    )
    call: Call = ("time__get_current_time", {"timezone": "Asia/Tokyo"})
    calls = {
        "claude-code": [("ToolSearch", {"query": "late abroad"}), call],
        "codex": [call],
        "gemini-cli": CALLS,
    }[agent.client]
    with model_endpoint(calls) as (address, turns):
        person.write(agent.path, agent.content.replace("{address}", address))
        person.run(DISCOVERY, "connect", agent.client, "--yes")
        environ = {name: value.format(address=address) for name, value in agent.environ.items()}
        environ["ENABLE_TOOL_SEARCH"] = "true"  # Claude Code has it off for addresses of others

        command = (*tools.client(agent.program), *agent.options, HOW_LATE)
        said = person.run(*command, **environ)

    assert DONE in said
    assert "+09:00" in turns[-1].results[-1]
    offered = [name for name in turns[0].tools if "__time__" in name]
    match agent.client:
        case "claude-code":  # it defers all but the pinned one, and the hint alone finds it
            assert offered == ["mcp__discovery__time__convert_time"]
            assert "time__get_current_time" in turns[-1].results[0]
        case "codex":
            assert len(offered) == 2
        case _:
            assert not offered


def without_discovery(document: Any) -> Any:
    servers = {key: value for key, value in document["mcpServers"].items() if key != "discovery"}
    return document | {"mcpServers": servers}


@pytest.mark.requirement("CON-1", "CON-3", "SRV-62")
def test_the_inspector_starts_the_entry_that_connect_writes(
    person: Person, tools: NodeTools
) -> None:
    before = '{"mcpServers": {}}'
    file = person.write(".mcp-inspector/mcp.json", before)
    person.run(DISCOVERY, "connect", "mcp-inspector", "--yes")
    inspector = (str(tools.node), str(tools.inspector), "--cli", "--config", str(file))
    call = (*inspector, "--server", "discovery", "--format", "json", "-q", "--method")

    listed = json.loads(person.run(*call, "tools/list"))
    arguments = json.dumps(CALLS[1][1])
    called = person.run(
        *call, "tools/call", "--tool-name", "execute_tool", "--tool-args-json", arguments
    )
    person.run(DISCOVERY, "connect", "mcp-inspector", "--undo", "--yes")

    assert {tool["name"] for tool in listed["result"]["tools"]} == {*META_TOOLS}
    assert "+09:00" in called
    assert file.read_text("utf-8") == before
