"""Bring agent frameworks and foreign MCP clients, each into an environment of its own.

    python scripts/frameworks.py [NAME ...]

They cannot share ours: some stand on version 1 of the MCP SDK, which excludes version 2, and each
has many dependencies. An environment of an extra of this project has the project itself, with
nothing beside it but that extra and mypy: what its page says is all that is installed. Environments
lie below `.tools/frameworks`. Run again it does nothing. `uv` makes one in some five seconds, and
links files from one cache; pip, which is used where `uv` is missing or fails, takes a minute.
Packages come from wherever these are configured to look, in the versions of `constraints.txt`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "frameworks"
EXTRAS = (
    "agent-framework",
    "anthropic",
    "google-adk",
    "langchain",
    "llama-index",
    "openai",
    "openai-agents",
    "pydantic-ai",
    "smolagents",
)
"""Those of this project that have an adapter."""
CLIENTS = {
    "clients": ["fastmcp", "pydantic-ai-slim"],
    "recipes": ["agno", "fastmcp-slim[client]", "mcp-haystack"],
    "recipes-mcp-1": ["autogen-agentchat", "autogen-ext[mcp]", "mcp<2", "strands-agents"],
}
"""Programs that connect to `discovery serve`, without this project beside them."""
BESIDE = {"mcp-1": ["json5<0.11", "mcp<2", "pydantic<2.13"]}
"""Packages that this project shares an environment with: as old as CrewAI 1.15 wants them."""
_AT_ONCE = 3  # installations; beyond that the disk is what they wait for
_SHOWN = 15  # lines of what an installer wrote


class FrameworkMissingError(Exception):
    """It is not there and cannot be brought; the message says why."""


def python_with(name: str) -> Path:
    """The interpreter of an environment, made first if need be.

    Raises:
        FrameworkMissingError: If it cannot be made.
    """
    with _locked(name):
        if not _is_ready(name):
            _make(name)
    return _python(name)


def requirements(name: str) -> list[str]:
    """Lines of a requirements file."""
    if name in EXTRAS:
        return [f"--editable={ROOT}[{name}]", "mypy"]
    if name in BESIDE:
        return [f"--editable={ROOT}", *BESIDE[name]]
    return CLIENTS[name]


def constraints(name: str) -> str:
    """The lines of `constraints.txt`, or what `constraints/NAME.txt` has instead of some."""
    files = [ROOT / "constraints.txt", ROOT / "constraints" / f"{name}.txt"]
    lines = [line for file in files if file.exists() for line in file.read_text("utf-8").split()]
    return "\n".join({line.partition("==")[0]: line for line in lines}.values())


def _is_ready(name: str) -> bool:
    stamp = FOLDER / name / ".ready"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _stamp(name)


def _stamp(name: str) -> str:
    """What an environment is made of: for an extra, also what the project depends on."""
    parts = [sys.version, *requirements(name), constraints(name)]
    if name not in CLIENTS:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        parts += project["dependencies"] + project["optional-dependencies"].get(name, [])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _make(name: str) -> None:
    began = time.monotonic()
    failures = []
    for install in (_install_with_uv, _install_with_pip):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        command = install(name)
        if command is None:
            continue
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
        if done.returncode == 0:
            (FOLDER / name / ".ready").write_text(_stamp(name), encoding="utf-8")
            print(f"== brought {name} in {time.monotonic() - began:.0f} s", file=sys.stderr)
            return
        written = (done.stderr or done.stdout).strip().splitlines()[-_SHOWN:]
        failures.append("\n".join([" ".join(map(str, command)), *written]))
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    raise FrameworkMissingError(f"{name} cannot be installed:\n" + "\n\n".join(failures))


def _install_with_uv(name: str) -> list[str] | None:
    """The command that fills an environment, which is there then; None without `uv`."""
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        return None
    venv.create(FOLDER / name)
    install = [uv, "pip", "install", "--python", str(_python(name)), *_arguments(name)]
    return [*install, f"--build-constraints={_versions(name)}"]


def _install_with_pip(name: str) -> list[str]:
    venv.create(FOLDER / name, with_pip=True)
    return [str(_python(name)), "-m", "pip", "install", *_arguments(name)]


def _arguments(name: str) -> list[str]:
    _versions(name).write_text(constraints(name), encoding="utf-8")
    return ["--quiet", f"--constraint={_versions(name)}", *requirements(name)]


def _versions(name: str) -> Path:
    return FOLDER / name / "constraints.txt"


def _python(name: str) -> Path:
    return FOLDER / name / "bin" / "python"


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """While one process makes an environment, others wait for it."""
    import fcntl  # noqa: PLC0415 - not on Windows, where the rest can still be read

    FOLDER.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(FOLDER / f"{name}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(names: list[str]) -> None:
    """Bring environments side by side; one that cannot be made leaves the others."""

    def bring(name: str) -> None:
        try:
            python_with(name)
        except FrameworkMissingError as error:
            print(f"   left out: {error}", file=sys.stderr)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(bring, names))


if __name__ == "__main__":
    main(sys.argv[1:] or [*CLIENTS, *BESIDE, *EXTRAS])
