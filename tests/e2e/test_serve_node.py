"""Judged by programs that nobody here wrote: the official conformance suite, and the Inspector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring
from tests.e2e.serving import ROOT, Home, fault_entry
from tests.unit.server.web import SessionClient

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

CONFORMANCE = Path(__file__).parent / "conformance"
EXPECTED_FAILURES = CONFORMANCE / "expected-failures.yml"
DIRECT_EXPECTED_FAILURES = CONFORMANCE / "direct-expected-failures.yml"
EVERYTHING = ROOT / "tests" / "servers" / "everything_server.py"
REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


def judged(
    home: Home, tools: NodeTools, address: str, revision: str, failures: Path
) -> subprocess.CompletedProcess[str]:
    """What the conformance suite says of the server at an address."""
    command = [tools.node, tools.conformance, "server", "--url", address]
    command += ["--requirements", revision, "--expected-failures", failures]
    command += ["--output-dir", home.folder / "conformance"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)


@pytest.mark.requirement("SRV-1")
@REVISIONS
def test_conformance_suite_finds_nothing_new(home: Home, tools: NodeTools, revision: str) -> None:
    home.write({"good": fault_entry()})
    with home.http() as address:
        done = judged(home, tools, address, revision, EXPECTED_FAILURES)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def everything_entry(prefix: str) -> Any:
    arguments = ["-W", "ignore", str(EVERYTHING), "stdio", "--tools", prefix]
    return {"command": sys.executable, "args": arguments}


async def awake(address: str, tool: str) -> None:
    """Call a tool once: the suite gives a call half a second, in which no server starts."""
    async with SessionClient(address) as client:
        answer = await client.call(tool, {}, session=await client.open())
    assert answer.status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("SRV-1", "MOD-1")
@REVISIONS
async def test_a_server_with_all_of_mcp_passes_the_suite_through_the_gateway(
    home: Home, tools: NodeTools, revision: str
) -> None:
    # The suite calls `test_simple_text`: in this style that is `simple_text` of the server `test`.
    servers = {"test": everything_entry("test_"), "json": everything_entry("json_")}
    home.write(servers, server={"mode": "direct", "toolNameStyle": "gemini"})
    await anyio.run_process(
        [sys.executable, "-m", "discovery_cli", "refresh"], cwd=home.folder, env=home.environ
    )
    with home.http() as address:
        await awake(address, "test_simple_text")
        judge = partial(judged, home, tools, address, revision, DIRECT_EXPECTED_FAILURES)
        done = await anyio.to_thread.run_sync(judge)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def inspected(home: Home, tools: NodeTools, era: str, *arguments: str) -> Any:
    """What the Inspector's command line gives; it starts the server in the home's folder."""
    named = f"DISCOVERY_CONFIG={home.config}"  # it passes nothing on of its own environment
    server = [tools.node, tools.inspector, "--cli", "-e", named, *home.command()]
    options = ["--format", "json", "--protocol-era", era, "-q"]
    environ = {**os.environ, "HOME": str(home.folder)}
    done = subprocess.run(
        [*server, *arguments, *options],
        check=False,
        capture_output=True,
        cwd=home.folder,
        env=environ,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["result"]


@pytest.mark.requirement("SRV-1", "MET-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_the_tools_and_calls_through(
    home: Home, tools: NodeTools, era: str
) -> None:
    home.write({"good": fault_entry()})

    listed = inspected(home, tools, era, "--method", "tools/list")
    arguments = json.dumps({"tool": "good:echo", "arguments": {"text": "hello"}})
    call = ["--method", "tools/call", "--tool-name", "execute_tool"]
    called = inspected(home, tools, era, *call, "--tool-args-json", arguments)

    assert "execute_tool" in {tool["name"] for tool in listed["tools"]}
    assert json.loads(called["content"][0]["text"]) == {"text": "hello"}
