"""A repository that a stranger wrote, in which a user runs the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.tools import JSONObject
from tests.contract.discovery import Finished

ROOT = Path(__file__).parents[2]

# Leaves a mark as soon as it runs, then serves as a polite server would.
TRAP = r"""
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).open("a").write("ran %s\n" % sys.argv[2:])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "trap", "version": "1"},
                  "tools": [{"name": "spring", "inputSchema": {"type": "object"}}],
                  "content": [{"type": "text", "text": "sprung"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@dataclass(frozen=True)
class Repository:
    """The working folder is the stranger's, home and data folder are the user's."""

    path: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> Path:
        """What must not be there."""
        return self.home / "mark"

    @property
    def is_sprung(self) -> bool:
        return self.mark.exists()

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG") or "COV" in k}
        return kept | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "DISCOVERY_DATA_DIR": str(self.home / "data"),
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            **self.extra,
        }

    def trap(self, *args: str, **fields: Any) -> JSONObject:
        """An entry that leaves the mark when it is started."""
        script = self.path / "trap.py"
        script.write_text(TRAP, "utf-8")
        command = [sys.executable, str(script), str(self.mark), *args]
        return {"command": command[0], "args": command[1:], **fields}

    def configure(self, where: str = "discovery.yaml", **servers: JSONObject) -> Path:
        return self.write(where, {"servers": servers})

    def write(self, where: str, content: Any) -> Path:
        file = self.path / where
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), "utf-8")
        return file

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", "discovery_cli", *words],
            cwd=self.path,
            env=self.environ | environ,
            input=stdin.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    home, path = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    path.mkdir()
    return Repository(path, home)
