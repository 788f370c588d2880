"""Agent frameworks, each run in the environment of its extra: `scripts/frameworks.py`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.frameworks import python_with
from tests.engines import Folder
from tests.servers.programs import none_left_running

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "examples" / "frameworks"
INTEGRATIONS = ROOT / "discovery_engine" / "integrations"


_OUTCOMES: dict[str, dict[str, str | None]] = {}
"""How the scenarios of each program failed, if they did: see `programs/scenarios.py`."""


@dataclass(frozen=True)
class Framework:
    """The interpreter that has a framework, and a folder with a configuration for its programs."""

    name: str
    python: Path
    folder: Folder

    def run(self, program: Path, *arguments: str) -> str:
        """What a program prints; it must succeed, offline, within four minutes."""
        done = subprocess.run(
            [self.python, "-W", "error::DeprecationWarning:discovery_engine", program, *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=self.environ,
            cwd=self.folder.path,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-5000:]
        return done.stdout

    def results(self, program: str, *arguments: str) -> Any:
        """What the last line that a program of `programs` prints holds as JSON."""
        return json.loads(self.run(PROGRAMS / program, *arguments).splitlines()[-1])

    def passes(self, program: str, *scenarios: str) -> None:
        """That scenarios of a program do what they should; all of them if none are named.

        They are run together, once: to import a framework takes longer than a scenario.
        """
        if program not in _OUTCOMES:
            _OUTCOMES[program] = self.results(program, str(self.folder.path))
        outcomes = _OUTCOMES[program]
        failures = {name: outcomes[name] for name in scenarios or outcomes}
        assert not any(failures.values()), "\n".join(filter(None, failures.values()))

    @property
    def environ(self) -> dict[str, str]:
        """That of the programs: the configuration of the folder, the tests on the path, no keys."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "DISCOVERY_CONFIG": str(self.folder.config),
            "DISCOVERY_DATA_DIR": str(self.folder.data),
            "PYTHONPATH": str(ROOT),
            "NO_PROXY": "*",
            "HTTPS_PROXY": "http://127.0.0.1:9",  # nobody answers there: the programs are offline
        }

    def check_types(self, *files: Path) -> None:
        """Check modules and programs with mypy, strictly, beside the framework."""
        strictly = ["--strict", "--config-file=", "--follow-imports=silent"]
        cache = ["--cache-dir", self.python.parent.parent / ".mypy_cache"]
        done = subprocess.run(
            [self.python, "-m", "mypy", *strictly, *cache, *files],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def framework(tmp_path: Path) -> Iterator[Callable[[str], Framework]]:
    """A framework by the name of its extra, or why there is none; no server may be left."""
    with none_left_running():
        yield lambda name: Framework(name, python_with(name), Folder(tmp_path))
