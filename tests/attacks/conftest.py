"""A repository that a stranger wrote, in which a user runs the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from tests.api_server import api  # noqa: F401 - a fixture
from tests.e2e.serving import Home
from tests.engines import Folder
from tests.forked import Finished, Preloaded

ROOT = Path(__file__).parents[2]
GREETING = {
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}

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
    forked: Preloaded

    @property
    def mark(self) -> Path:
        """What must not be there."""
        return self.home / "mark"

    @property
    def is_sprung(self) -> bool:
        return self.mark.exists()

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG")}
        return kept | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "DISCOVERY_DATA_DIR": str(self.home / "data"),
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
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

    def clone(self, path: Path) -> Repository:
        """Another stranger's folder, in which the same user runs the command."""
        path.mkdir()
        return replace(self, path=path)

    def __call__(self, *words: str, **environ: str) -> Finished:
        return self.forked(words, cwd=self.path, environ=self.environ | environ)

    def served(self, *calls: tuple[str, JSONObject], **environ: str) -> list[JSONObject]:
        """What `discovery serve` answers to these calls of its tools, each in its turn."""
        asked = [
            {"method": "tools/call", "params": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
        messages = [{"id": at, **message} for at, message in enumerate([GREETING, *asked])]
        with (
            subprocess.Popen(
                [sys.executable, "-m", "discovery_cli", "serve"],
                cwd=self.path,
                env=self.environ | environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as program,
            _ended_after(60, program),
        ):
            return [_exchange(program, message) for message in messages][1:]


def _exchange(program: subprocess.Popen[bytes], message: JSONObject) -> JSONObject:
    """The answer to a message, once it came."""
    assert program.stdin
    assert program.stdout
    program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    program.stdin.flush()
    for line in program.stdout:
        answer: JSONObject = json.loads(line)
        if answer.get("id") == message["id"]:
            return answer
    raise AssertionError(f"no answer to {message}")


@contextmanager
def _ended_after(seconds: float, program: subprocess.Popen[bytes]) -> Iterator[None]:
    timer = threading.Timer(seconds, program.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Where an owner keeps a configuration, and names it."""
    return Folder(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Where the program serves what its owner named."""
    return Home(tmp_path)


@pytest.fixture
def repository(tmp_path: Path, forked: Preloaded) -> Repository:
    home, path = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    path.mkdir()
    return Repository(path, home, forked)
