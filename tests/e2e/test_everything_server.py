"""The server that tests put behind the gateway passes the official conformance suite itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

SERVER = Path(__file__).parent.parent / "servers" / "everything_server.py"


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-W", "ignore", SERVER, "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        server.kill()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_server_passes_every_scored_scenario(
    tools: NodeTools, address: str, tmp_path: Path, revision: str
) -> None:
    command = [tools.node, tools.conformance, "server", "--url", address]
    command += ["--requirements", revision, "--output-dir", tmp_path]

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
