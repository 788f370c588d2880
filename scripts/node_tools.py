"""Bring the Node.js programs that tests and benchmarks use, at fixed versions, into `.tools/node`.

    python scripts/node_tools.py

Run again it does nothing. Node.js itself is among them, because the suites need a newer one than
many machines have; npm must be there already. Packages come from wherever npm is configured to
look.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "node"
AS_OF = "2026-11-28"
"""Of what a package depends on, npm takes the newest release before this day."""
PACKAGES = {
    "node": "22.23.3",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "gpt-tokenizer": "4.0.0",
    "typescript": "7.0.2",
}


class NodeToolsMissingError(Exception):
    """They are not there and cannot be brought; the message says why."""


@dataclass(frozen=True)
class NodeTools:
    """Where the programs are; each is run by `node`."""

    folder: Path

    @property
    def node(self) -> Path:
        return self.folder / "node_modules" / ".bin" / "node"

    @property
    def inspector(self) -> Path:
        return self.folder / "node_modules" / ".bin" / "mcp-inspector"

    @property
    def typescript(self) -> Path:
        return self.folder / "node_modules" / "typescript" / "bin" / "tsc"

    @property
    def conformance(self) -> Path:
        package = self.folder / "node_modules" / "@modelcontextprotocol" / "conformance"
        return package / "dist" / "index.js"


def bring(*, install: bool = True) -> NodeTools:
    """The programs, installed first if need be and if `install`.

    Raises:
        NodeToolsMissingError: If they are not there and cannot be, or may not be, brought.
    """
    ready = FOLDER / ".ready"
    wanted = [AS_OF, *(f"{name}@{version}" for name, version in PACKAGES.items())]
    if not ready.exists() or ready.read_text(encoding="utf-8").split() != wanted:
        if not install:
            raise NodeToolsMissingError("`python scripts/node_tools.py` brings them")
        _install(wanted[1:])
        ready.write_text("\n".join(wanted), encoding="utf-8")
    return NodeTools(FOLDER)


def _install(wanted: list[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NodeToolsMissingError("they need npm, which is not on PATH")
    print("== bringing Node.js, the conformance suite and the Inspector", file=sys.stderr)
    done = npm_install(npm, FOLDER, wanted)
    if done.returncode == 0:
        # The one package that needs a script: it brings the program for this processor.
        rebuild = [npm, "rebuild", "--silent", "--prefix", str(FOLDER), "node"]
        done = subprocess.run(rebuild, check=False, capture_output=True, text=True)
    if done.returncode or not _runs(NodeTools(FOLDER).node):
        shutil.rmtree(FOLDER, ignore_errors=True)
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NodeToolsMissingError(f"npm could not bring them: {said[-1] if said else 'no word'}")


def npm_install(npm: str, folder: Path, packages: list[str]) -> subprocess.CompletedProcess[str]:
    """Install packages into a new folder, and run no script of theirs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [npm, "install", "--silent", "--no-package-lock", "--no-audit", "--no-fund"]
    command += ["--ignore-scripts", f"--before={AS_OF}", "--prefix", str(folder), *packages]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _runs(node: Path) -> bool:
    if not node.exists():
        return False
    return subprocess.run([node, "--version"], check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    try:
        bring()
    except NodeToolsMissingError as error:
        print(f"   left out: {error}", file=sys.stderr)
