"""Bring client libraries that cannot share our environment, each into one below `.tools`.

    python scripts/foreign_clients.py

LangChain's adapter stands on version 1 of the MCP SDK, which excludes version 2. Run again it does
nothing. Packages come from wherever pip is configured to look.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGCHAIN = ROOT / ".tools" / "langchain"
PACKAGE = "langchain-mcp-adapters==0.3.2"


class ClientMissingError(Exception):
    """It is not there and cannot be brought; the message says why."""


def langchain_python() -> Path:
    """The interpreter that has LangChain's adapter, installed first if need be.

    Raises:
        ClientMissingError: If it cannot be brought.
    """
    ready = LANGCHAIN / ".ready"
    python = LANGCHAIN / "bin" / "python"
    if not ready.exists() or ready.read_text(encoding="utf-8") != PACKAGE:
        _install(python)
        ready.write_text(PACKAGE, encoding="utf-8")
    return python


def _install(python: Path) -> None:
    print(f"== bringing {PACKAGE}", file=sys.stderr)
    shutil.rmtree(LANGCHAIN, ignore_errors=True)
    venv.create(LANGCHAIN, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", PACKAGE]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(LANGCHAIN, ignore_errors=True)
        said = done.stderr.strip().splitlines()
        raise ClientMissingError(f"pip could not bring it: {said[-1] if said else 'no word'}")


if __name__ == "__main__":
    try:
        langchain_python()
    except ClientMissingError as error:
        print(f"   left out: {error}", file=sys.stderr)
