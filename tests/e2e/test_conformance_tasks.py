"""The scenarios about tasks of the official conformance suite, which it does not score.

They run against a server behind the gateway in direct mode. The suite calls tools by bare names,
which the gateway prefixes with the name of their server; a proxy between them hides the prefix.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring
from tests.e2e.serving import Home

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
SERVER = HERE.parent / "servers" / "tasks_http_server.py"
PROXY = HERE / "conformance" / "prefix_proxy.py"
SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
# A tool that exists as a task only is to be refused to a client that does not know tasks, if it
# cannot be served otherwise. The gateway can: it waits for the result.
SERVED_OTHERWISE = "sep-2663-server-returns-missing-capability-when-required"


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = Home(tmp_path_factory.mktemp("home"))
    server = {"mode": "direct", "poolLimit": 100, "toolNameStyle": "gemini"}
    entry = {"command": sys.executable, "args": ["-W", "ignore", str(SERVER), "stdio"]}
    home.write({"tasks": entry}, server=server)
    with home.http() as gateway:
        asyncio.run(started(gateway))
        command = [sys.executable, str(PROXY), gateway, "tasks_"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as proxy:
            assert proxy.stdout is not None
            yield f"http://127.0.0.1:{int(proxy.stdout.readline())}/mcp"
            proxy.kill()


async def started(gateway: str) -> None:
    """Wait until the server runs: the suite gives some calls half a second."""
    async with Client(gateway) as client:
        await client.list_tools()
        await client.call_tool("tasks_greet", {"name": "you"})


@pytest.mark.requirement("TSK-20")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios_of_tasks_pass_through_the_gateway(
    tools: NodeTools, address: str, tmp_path: Path, scenario: str
) -> None:
    command = [tools.node, tools.conformance, "server", "--url", address, "--force"]
    command += ["--scenario", scenario, "--output-dir", tmp_path]

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)

    [report] = tmp_path.rglob("checks.json")
    checks: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))
    failed = {check["id"]: check.get("errorMessage") for check in checks if not is_good(check)}
    expected = {SERVED_OTHERWISE} if scenario == "tasks-required-task-error" else set()
    assert failed.keys() == expected, f"{failed} {done.stderr[-1000:]}"
    assert len(checks) > len(expected)


def is_good(check: dict[str, Any]) -> bool:
    return bool(check["status"] in {"SUCCESS", "INFO"})
