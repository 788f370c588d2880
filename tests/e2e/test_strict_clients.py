"""Clients that refuse a whole list for one invalid member, in front of a server full of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.node_tools import NodeToolsMissingError, bring
from tests.e2e.serving import Home
from tests.e2e.test_serve_foreign import PROGRAMS
from tests.engines import entry
from tests.hostile import DEFINITIONS, hostile

pytestmark = [pytest.mark.e2e, pytest.mark.conformance, pytest.mark.timeout(300)]

SDKS = {
    "@modelcontextprotocol/sdk": ("dist/esm/client/index.js", "dist/esm/client/stdio.js"),
    "@modelcontextprotocol/client": ("dist/index.mjs", "dist/stdio.mjs"),
}
"""The modules with a client and its transport."""


@pytest.fixture
def served(home: Home) -> Home:
    server = entry(hostile(home.folder / "world.json").server())
    home.write({"hostile": server}, server={"mode": "direct", "poolLimit": 100})
    return home


def judge(seen: Any) -> None:
    assert seen["refused"] == {}
    assert sorted(seen["failed"]) == ["hostile__failed", "hostile__failing"]
    assert seen["tools"] > len(DEFINITIONS)
    assert seen["resources"] > 3
    assert seen["prompts"] > 1
    assert seen["messages"] > 5


@pytest.mark.node
@pytest.mark.requirement("SRV-90")
@pytest.mark.parametrize("package", SDKS)
def test_typescript_sdk_reads_everything(served: Home, package: str) -> None:
    try:
        tools = bring()
    except NodeToolsMissingError as missing:
        pytest.skip(f"Node.js tools: {missing}")
    folder = tools.folder / "node_modules" / package
    modules = [folder / file for file in SDKS[package]]
    if not all(map(Path.exists, modules)):
        pytest.skip(f"{package} is not there; it comes with the Inspector")

    done = subprocess.run(
        [tools.node, PROGRAMS / "strict_client.mjs", *modules, "hostile", *served.command()],
        check=False,
        capture_output=True,
        text=True,
        env=served.environ,
        cwd=served.folder,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    judge(json.loads(done.stdout.splitlines()[-1]))
