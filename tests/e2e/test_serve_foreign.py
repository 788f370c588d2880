"""Clients that nobody here wrote: LangChain's on version 1 of the SDK, others on version 2."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts.foreign_clients import ClientMissingError, python_with
from tests.e2e.serving import Home, fault_entry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "foreign"


@pytest.mark.requirement("SRV-1")
@pytest.mark.parametrize(
    ("group", "program"),
    [
        pytest.param("langchain", "langchain_agent.py", id="LangChain"),
        pytest.param("agents", "fastmcp_client.py", id="FastMCP"),
        pytest.param("agents", "pydantic_ai_agent.py", id="PydanticAI"),
        pytest.param("agents", "openai_agent.py", id="OpenAI Agents"),
    ],
)
def test_foreign_client_searches_and_executes(home: Home, group: str, program: str) -> None:
    home.write({"good": fault_entry()})
    try:
        python = python_with(group)
    except ClientMissingError as missing:
        pytest.skip(f"{group}: {missing}")

    done = subprocess.run(
        [python, PROGRAMS / program, *home.command()],
        check=False,
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.folder,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert {"search_tools", "execute_tool"} <= set(told["tools"])
    assert told["found"].startswith("Match: sure.\ngood:echo(text?) - The tool echo")
    assert json.loads(told["executed"]) == {"text": "hello"}
