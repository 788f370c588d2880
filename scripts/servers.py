"""Bring real MCP servers, each into an environment of its own below `.tools/servers`.

    python scripts/servers.py [NAME ...]

Run again it does nothing. Packages come from wherever pip and npm are configured to look, those of
Python in the versions of `constraints.txt`. Without Node.js the npm servers are left out, and said
to be.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

from frameworks import constraints
from node_tools import AS_OF, npm_install

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "servers"

# Older Python servers do not run on the newer SDK, so each has its own environment. With uv, tests
# install servers as a person does.
PYTHON_PROGRAMS = {"time": "mcp-server-time", "git": "mcp-server-git", "uv": "uv"}
NODE_SERVERS = {
    "everything": "@modelcontextprotocol/server-everything@2026.8.31",
    "filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
}


def bring(names: Iterable[str] = ()) -> list[str]:
    """Install what is missing; returns the names of the servers that are there."""
    wanted = list(names) or [*PYTHON_PROGRAMS, *NODE_SERVERS]
    return [name for name in wanted if _is_ready(name) or _install(name)]


def _is_ready(name: str) -> bool:
    stamp = FOLDER / name / ".ready"
    return stamp.exists() and stamp.read_text("utf-8") == _versions(name)


def _versions(name: str) -> str:
    return constraints(name) if name in PYTHON_PROGRAMS else f"{NODE_SERVERS[name]} {AS_OF}"


def _install(name: str) -> bool:
    folder = FOLDER / name
    package = PYTHON_PROGRAMS.get(name) or NODE_SERVERS[name]
    print(f"== bringing {package}", file=sys.stderr, flush=True)
    if name in PYTHON_PROGRAMS:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        versions = folder / "constraints.txt"
        versions.write_text(_versions(name), "utf-8")
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        install += [f"--constraint={versions}", package]
        subprocess.run(install, check=True, stdout=sys.stderr)
    elif npm := shutil.which("npm"):
        done = npm_install(npm, folder, [package])
        if done.returncode:
            sys.exit(f"npm could not bring {package}:\n{done.stderr or done.stdout}")
    else:
        print(f"   left out: {package} needs Node.js and npm", file=sys.stderr, flush=True)
        return False
    (folder / ".ready").write_text(_versions(name), "utf-8")
    return True


if __name__ == "__main__":
    bring(sys.argv[1:])
