"""LangChain's adapter, on version 1 of the SDK: a client of the handshake era."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts.foreign_clients import ClientMissingError, langchain_python
from tests.e2e.serving import Home, fault_entry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AGENT = Path(__file__).parent / "foreign" / "langchain_agent.py"


@pytest.mark.requirement("SRV-1")
def test_langchain_agent_searches_and_executes(home: Home) -> None:
    home.write({"good": fault_entry()})
    try:
        python = langchain_python()
    except ClientMissingError as missing:
        pytest.skip(f"LangChain's adapter: {missing}")

    done = subprocess.run(
        [python, AGENT, *home.command()],
        check=False,
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.folder,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told["tools"]) == 5
    assert told["found"].startswith("Match: sure.\ngood:echo(text?) - The tool echo")
    assert json.loads(told["executed"]) == {"text": "hello"}
