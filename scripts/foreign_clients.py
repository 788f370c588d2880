"""Bring client libraries that cannot share our environment, each group into one below `.tools`.

    python scripts/foreign_clients.py

LangChain's adapter stands on version 1 of the MCP SDK, which excludes version 2. The others agree
on version 2, but with many dependencies of their own. Run again it does nothing. Packages come from
wherever pip is configured to look.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / ".tools"
GROUPS = {
    "langchain": ["langchain-mcp-adapters==0.3.2"],
    "agents": ["fastmcp==4.1.2", "pydantic-ai-slim[mcp]==2.68.0", "openai-agents==0.24.0"],
}


class ClientMissingError(Exception):
    """It is not there and cannot be brought; the message says why."""


def python_with(group: str) -> Path:
    """The interpreter that has the libraries of a group, installed first if need be.

    Raises:
        ClientMissingError: If they cannot be brought.
    """
    ready = TOOLS / group / ".ready"
    wanted = " ".join(GROUPS[group])
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        _install(group)
        ready.write_text(wanted, encoding="utf-8")
    return TOOLS / group / "bin" / "python"


def _install(group: str) -> None:
    print(f"== bringing {', '.join(GROUPS[group])}", file=sys.stderr)
    folder = TOOLS / group
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *GROUPS[group]]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        said = done.stderr.strip().splitlines()
        raise ClientMissingError(f"pip could not bring it: {said[-1] if said else 'no word'}")


if __name__ == "__main__":
    for one in GROUPS:
        try:
            python_with(one)
        except ClientMissingError as error:
            print(f"   left out: {error}", file=sys.stderr)
