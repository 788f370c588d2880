"""Judged by programs that nobody here wrote: the official conformance suite, and the Inspector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring
from tests.e2e.serving import Home, fault_entry

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(300)]

EVERYTHING = Path(__file__).parents[1] / "servers" / "everything_server.py"
EXPECTED_FAILURES = Path(__file__).parent / "conformance" / "expected-failures.yml"


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


@pytest.mark.requirement("SRV-1")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_conformance_suite_finds_nothing_new(home: Home, tools: NodeTools, revision: str) -> None:
    home.write({"good": fault_entry()})
    with home.http() as address:
        command = [tools.node, tools.conformance, "server", "--url", address]
        command += ["--requirements", revision, "--expected-failures", EXPECTED_FAILURES]
        command += ["--output-dir", home.folder / "conformance"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def inspected(home: Home, tools: NodeTools, era: str, *arguments: str) -> Any:
    """What the Inspector's command line gives; it starts the server in the home's folder."""
    names = ("DISCOVERY_CONFIG", "DISCOVERY_DATA_DIR")  # it passes on nothing by itself
    own = [part for name in names for part in ("-e", f"{name}={home.environ[name]}")]
    server = [tools.node, tools.inspector, "--cli", *own, *home.command()]
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


@pytest.mark.requirement("SRV-62")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_uses_what_a_server_has_besides_tools(
    home: Home, tools: NodeTools, era: str
) -> None:
    arguments = ["-W", "ignore", str(EVERYTHING), "stdio", "--era", "handshake"]
    home.write({"everything": {"command": sys.executable, "args": arguments}})
    refreshed = [sys.executable, "-m", "discovery_cli", "refresh"]
    subprocess.run(refreshed, check=True, capture_output=True, env=home.environ, cwd=home.folder)

    resources = inspected(home, tools, era, "--method", "resources/list")
    templates = inspected(home, tools, era, "--method", "resources/templates/list")
    uri = "test://template/7/data"
    read = inspected(home, tools, era, "--method", "resources/read", "--uri", uri)
    name = "test_prompt_with_arguments"
    got = ["--method", "prompts/get", "--prompt-name", name, "--prompt-args", "arg1=a", "arg2=b"]
    prompt = inspected(home, tools, era, *got)

    assert "test://static-text" in {one["uri"] for one in resources["resources"]}
    assert templates["resourceTemplates"][-1]["uriTemplate"] == "test://template/{id}/data"
    assert json.loads(read["contents"][0]["text"])["id"] == "7"
    line = "Prompt with arguments: arg1='a', arg2='b'"
    assert prompt["messages"][0]["content"]["text"] == line
