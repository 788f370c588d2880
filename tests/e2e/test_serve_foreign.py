"""The client of FastMCP, in front of a server that has everything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.frameworks import FrameworkMissingError, python_with
from tests.e2e.serving import Home

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "foreign"
EVERYTHING = PROGRAMS.parents[1] / "servers" / "everything_server.py"
OFFERED = {
    "text": "This is the content of the static text resource.",
    "filled": '{"id": "7", "templateTest": true, "data": "Data for ID: 7"}',
    "progress": "done",
}
ANSWERED = {
    "form": 'User response: action=accept, content={"username": "ann", "email": "ann@example.org"}',
    "sample": "LLM response: Paris",
    "roots": "file:///project/here",
    "log": "logged",
    "asked": ["everything asks: Who?", "everything asks: Please visit", "Capital?"],
    "logged": [
        f"Tool {w}" for w in ("execution started", "processing data", "execution completed")
    ],
}
COMPLETED = {"completed": ["paris", "park", "party"]}
"""What a client sees of what it has, as `specs/serving.md` has it."""


@pytest.mark.requirement("SRV-62")
@pytest.mark.parametrize(("mode", "transport"), [("meta", "stdio"), ("direct", "http")])
def test_foreign_client_uses_what_a_server_has_besides_tools(
    home: Home, mode: str, transport: str
) -> None:
    arguments = ["-W", "ignore", str(EVERYTHING), "stdio", "--era", "handshake"]
    server = {"command": sys.executable, "args": arguments}
    home.write({"everything": server}, server={"mode": mode, "poolLimit": 100})
    refreshed = [sys.executable, "-m", "discovery_cli", "refresh"]
    subprocess.run(refreshed, check=True, capture_output=True, env=home.environ, cwd=home.folder)

    if transport == "http":
        with home.http() as address:
            seen = printed_by(home, "clients", "fastmcp_journey.py", mode, transport, address)
    else:
        seen = printed_by(home, "clients", "fastmcp_journey.py", mode, transport, *home.command())

    expected = {**OFFERED, **ANSWERED, **COMPLETED, "cancelled": "1"}
    assert {name: seen.get(name) for name in expected} == expected
    assert "test://static-text" in seen["resources"]
    assert "test://template/{id}/data" in seen["templates"]
    assert "test_prompt_with_arguments" in seen["prompts"]
    assert "Prompt with arguments: arg1='one', arg2='two'" in seen["prompt"]
    assert "action=accept" in seen["address"]
    assert seen["reported"][:3] == [0.0, 50.0, 100.0]


def printed_by(home: Home, group: str, program: str, *arguments: str) -> Any:
    """What a program of `foreign` prints, run by the interpreter that has its client."""
    try:
        python = python_with(group)
    except FrameworkMissingError as missing:
        pytest.skip(f"{group}: {missing}")

    done = subprocess.run(
        [python, PROGRAMS / program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.folder,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
