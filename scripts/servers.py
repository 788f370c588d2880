"""Bring real MCP servers, each into an environment of its own below `.tools/servers`.

    python scripts/servers.py [NAME ...]

Run again it does nothing. Packages come from wherever pip and npm are configured to look.
Without Node.js the npm servers are left out, and said to be.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "servers"

# Older Python servers do not run on the newer SDK, so each has its own environment.
PYTHON_SERVERS = {"time": "mcp-server-time", "git": "mcp-server-git"}
# With uv, tests install servers as a person does; it has an environment of its own, too.
RUNNERS = {"uv": "uv"}
NODE_SERVERS = {
    "everything": "@modelcontextprotocol/server-everything",
    "filesystem": "@modelcontextprotocol/server-filesystem",
}


def bring(names: Iterable[str] = ()) -> list[str]:
    """Install what is missing; returns the names of the servers that are there."""
    wanted = list(names) or [*PYTHON_SERVERS, *RUNNERS, *NODE_SERVERS]
    return [n for n in wanted if (FOLDER / n / ".ready").exists() or _install(n)]


def _install(name: str) -> bool:
    folder = FOLDER / name
    package = (PYTHON_SERVERS | RUNNERS).get(name) or NODE_SERVERS[name]
    print(f"== bringing {package}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    if name in PYTHON_SERVERS | RUNNERS:
        venv.create(folder, with_pip=True)
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", package])
    elif npm := shutil.which("npm"):
        folder.mkdir(parents=True)
        _run([npm, "install", "--silent", "--no-package-lock", "--prefix", str(folder), package])
    else:
        print(f"   left out: {package} needs Node.js and npm", file=sys.stderr, flush=True)
        return False
    (folder / ".ready").touch()
    return True


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    bring(sys.argv[1:])
