"""The project as its users install it: the wheel, in an environment without anything else."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.frameworks import constraints
from tests.e2e.serving import Home
from tests.forked import Preloaded, preloaded
from tests.servers.programs import HERE

ROOT = Path(__file__).resolve().parents[2]
TOOL = {
    "name": "echo",
    "description": "Repeat a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
WORLD = {
    "tools": [TOOL],
    "resources": [{"uri": "file:///notes", "name": "notes"}],
    "prompts": [{"name": "greet", "description": "Greet somebody."}],
}


@dataclass(frozen=True)
class Installation:
    """An environment that has the project, and no tests."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *words: str | Path, home: PlainHome) -> str:
        """The output of a program of the environment, which must succeed."""
        program, *arguments = words
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            env=home.environ,
            cwd=home.folder,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, code: str, *arguments: str, home: PlainHome) -> Any:
        """The document that a program in Python prints."""
        return json.loads(self.run("python", "-I", "-c", code, *arguments, home=home))


@dataclass(frozen=True)
class PlainHome(Home):
    """The home of a user, whose configuration has a small server."""

    program: Path

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "DISCOVERY_CONFIG": str(self.config),
            "DISCOVERY_DATA_DIR": str(self.folder / "data"),
        }

    def command(self, *options: str) -> list[str]:
        return [str(self.program), "serve", *options]

    def configure(self, **sections: Any) -> None:
        (self.folder / "world").write_text(json.dumps(WORLD), "utf-8")
        server = [str(HERE / "offering_server.py"), str(self.folder / "world")]
        self.write({"tiny": {"command": sys.executable, "args": server}}, **sections)


@pytest.fixture
def home(tmp_path: Path, plain: Installation) -> PlainHome:
    home = PlainHome(tmp_path, plain.folder / "bin" / "discovery")
    home.configure()
    return home


@pytest.fixture(scope="session")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a run of the tests share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def wheel(of_run: Path) -> Path:
    folder = of_run / "wheel"
    with _made_once(folder) as is_made:
        if not is_made:
            build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
            subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def model_wheel(of_run: Path) -> Path:
    """The folder with the wheel of the sentence model, which the extra `model` needs."""
    folder = of_run / "model-wheel"
    with _made_once(folder) as is_made:
        if not is_made:
            build = [sys.executable, "-m", "scripts.model.wheel", "--into", folder]
            subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    return folder


@pytest.fixture(scope="session")
def plain(of_run: Path, wheel: Path) -> Installation:
    """The installation without extras."""
    folder = of_run / "plain"
    with _made_once(folder) as is_made:
        return Installation(folder) if is_made else install(folder, wheel)


@pytest.fixture(scope="session")
def forked(plain: Installation) -> Iterator[Preloaded]:
    """The command of the installation without extras, in processes that are forked."""
    with preloaded(python=plain.python) as run:
        yield run


def install(
    folder: Path, wheel: Path, extra: str = "", *, links: Path | None = None
) -> Installation:
    """Make an environment; what `uv` has in its cache needs no network."""
    versions = folder.with_suffix(".txt")
    versions.write_text(constraints(extra), "utf-8")
    requirement = f"{wheel}[{extra}]" if extra else wheel
    uv = Path(sys.executable).with_name("uv")
    make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder]
    subprocess.run(make, check=True)
    command = [uv, "pip", "install", "--quiet", "--python", folder, "-c", versions, requirement]
    command += ["--find-links", links] if links else []
    if subprocess.run([*command, "--offline"], check=False, capture_output=True).returncode:
        subprocess.run(command, check=True)
    return Installation(folder)


@contextmanager
def _made_once(folder: Path) -> Iterator[bool]:
    """A block that makes a folder, unless another process of the run has; others wait for it."""
    with folder.with_suffix(".lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield bool(file.read())
        file.write("made")
