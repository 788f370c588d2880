"""`discovery` as a program, run once to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from discovery_engine._util.json import JSONObject
from tests.e2e.serving import REAL_SERVERS, ROOT
from tests.forked import Preloaded

QUICKSTART = ROOT / "examples" / "quickstart" / "discovery.yaml"
NODE_SERVERS = frozenset({"everything", "filesystem"})


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> JSONObject:
        """The one JSON document on stdout."""
        document: JSONObject = json.loads(self.out)
        return document

    @property
    def error(self) -> JSONObject:
        """The error on stderr, of a run with `--json`."""
        document: JSONObject = json.loads(self.err)["error"]
        return document


@dataclass(frozen=True)
class Shell:
    """Somewhere to run it: a configuration, a data folder, and an empty home."""

    config: Path
    home: Path
    forked: Preloaded
    cwd: Path = ROOT

    @property
    def environ(self) -> dict[str, str]:
        """The tests' own, without what the person who runs them has set up for `discovery`."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DISCOVERY_", "XDG_"))}
        own = {"DISCOVERY_CONFIG": self.config, "DISCOVERY_DATA_DIR": self.home / "data"}
        return kept | {name: str(path) for name, path in own.items()} | {"HOME": str(self.home)}

    def run(self, words: Iterable[str], *, stdin: str = "", **environ: str) -> Done:
        environ = self.environ | environ
        done = self.forked(list(words), cwd=self.cwd, environ=environ, stdin=stdin.encode())
        return Done(done.code, done.out, done.err)

    def run_afresh(self, words: Iterable[str]) -> Done:
        """The same in a Python that starts for it, as it does for a person."""
        done = subprocess.run(
            [sys.executable, "-m", "discovery_cli", *words],
            capture_output=True,
            check=False,
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=90,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def missing_servers() -> set[str]:
    """The servers of the quickstart that `make servers` has not brought."""
    names = {"time", "git", *NODE_SERVERS}
    return {name for name in names if not (REAL_SERVERS / name / ".ready").exists()}


def need(*servers: str) -> None:
    """Skip the test unless these real servers are there, saying what would bring them."""
    for name in sorted(missing_servers().intersection(servers)):
        needs = "Node.js and `make servers`" if name in NODE_SERVERS else "`make servers`"
        pytest.skip(f"the server {name} is not there; {needs} would bring it")
