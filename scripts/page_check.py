"""Look at the page's modules without a browser: can each be read, and do its types hold?

    python scripts/page_check.py

TypeScript checks the types where `make servers` has brought it; else any Node.js on the PATH says
whether each module can be read. Without Node.js this says that it was left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import node_tools

PAGE = Path(__file__).resolve().parent.parent / "discovery_server" / "page"


def check() -> int:
    """The exit status; what is wrong has been printed."""
    try:
        tools = node_tools.bring(install=False)
    except node_tools.NodeToolsMissingError:
        return _readable()
    types = [tools.node, tools.typescript, "-p", PAGE / "tsconfig.json", "--pretty", "false"]
    return subprocess.run(types, check=False).returncode


def _readable() -> int:
    node = shutil.which("node")
    if node is None:
        print("left out: the modules of the page are not checked, since there is no Node.js")
        return 0
    for module in sorted((PAGE / "static").rglob("*.js")):
        # By its name, Node.js would take it for a script of the old kind.
        text = module.read_bytes()
        read = [node, "--input-type=module", "--check", "-"]
        done = subprocess.run(read, input=text, capture_output=True, check=False)
        if done.returncode:
            sys.stderr.write(f"{module}: {done.stderr.decode(errors='replace')}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(check())
