"""Towards remote servers the engine is a client, which the official conformance suite judges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.node_tools import NodeTools, NodeToolsMissingError, bring

pytestmark = [pytest.mark.e2e, pytest.mark.node, pytest.mark.timeout(120)]

CLIENT = Path(__file__).parent / "conformance" / "client.py"
SCENARIOS = [
    "initialize",
    "tools_call",
    "sse-retry",
    "request-metadata",
    "http-standard-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
]
"""All but that of custom headers: a call of it has an argument of `null` where the tool's schema
allows none, which the engine refuses to send."""


@pytest.fixture(scope="module")
def tools() -> NodeTools:
    try:
        return bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")


@pytest.mark.requirement("UPS-1")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_engine_passes_the_scenario(tools: NodeTools, tmp_path: Path, scenario: str) -> None:
    command = [tools.node, tools.conformance, "client", "--scenario", scenario]
    command += ["--command", f"{sys.executable} {CLIENT}", "--timeout", "60000"]

    done = subprocess.run(
        [*command, "--output-dir", tmp_path], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
