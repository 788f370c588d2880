"""The client of tasks that the authors of the extension maintain, with a real server of tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring
from tests.e2e.serving import Home

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
SERVER = HERE.parent / "servers" / "tasks_http_server.py"
CLIENT = HERE / "foreign" / "task_client.mjs"


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


@pytest.mark.conformance
@pytest.mark.requirement("TSK-20")
def test_a_foreign_client_follows_its_tasks_to_the_end(home: Home, tools: NodeTools) -> None:
    package = tools.folder / "node_modules" / "@modelcontextprotocol" / "ext-tasks"
    if not package.exists():
        pytest.skip("ext-tasks is not there; it comes with the Inspector")
    entry = {"command": sys.executable, "args": ["-W", "ignore", str(SERVER), "stdio"]}
    home.write({"tasks": entry}, server={"mode": "direct"})

    with home.http() as address:
        command = [tools.node, CLIENT, package, address, "tasks"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen["outcomes"] == {
        "greet": "Hello, Ann!",
        "slow": "computed one",
        "asks": "a.txt: accept",
        "fails": "TaskFailedError: the job broke",
    }
    assert seen["asked"] == ["tasks asks: Delete a.txt?"]
    assert {"tasks/get", "tasks/update"} <= set(seen["methods"])
