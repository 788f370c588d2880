"""The official conformance suite against a server behind the gateway in direct mode.

The suite calls tools by name, and a tool is named `server_tool` towards clients. So the server of
the suite is behind the gateway in two parts, whose names are the first words of its tools.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client

from discovery_engine._util.json import JSONObject
from scripts.node_tools import NodeTools, NodeToolsMissingError, bring
from tests.e2e.serving import Home

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

SERVER = Path(__file__).parent.parent / "servers" / "everything_server.py"


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


def entry(prefix: str) -> JSONObject:
    arguments = ["-W", "ignore", str(SERVER), "stdio", "--tools", prefix]
    return {"command": sys.executable, "args": arguments}


async def started(address: str) -> None:
    """Wait until both parts run: the suite gives some calls half a second."""
    calls = {"test_simple_text": {}, "json_schema_2020_12_tool": {"email": "a@example.com"}}
    listed: set[str] = set()
    while not calls.keys() <= listed:  # a busy machine takes its time to start them
        async with Client(address) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
    async with Client(address) as client:
        for name, arguments in calls.items():
            await client.call_tool(name, arguments)


@pytest.mark.requirement("SRV-62")
@pytest.mark.parametrize(
    "revision", ["2025-11-25", pytest.param("2026-07-28", marks=pytest.mark.landing)]
)
def test_server_passes_every_scored_scenario_through_the_gateway(
    home: Home, tools: NodeTools, revision: str
) -> None:
    server = {"mode": "direct", "poolLimit": 100, "toolNameStyle": "gemini"}
    home.write({"test": entry("test_"), "json": entry("json_")}, server=server)
    with home.http() as address:
        asyncio.run(started(address))
        command = [tools.node, tools.conformance, "server", "--url", address]
        command += ["--requirements", revision, "--output-dir", home.folder / "conformance"]

        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
