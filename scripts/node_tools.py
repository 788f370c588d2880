"""Bring the Node.js programs that tests and benchmarks use, at fixed versions, into `.tools`.

    python scripts/node_tools.py [--clients]

Run again it does nothing. Node.js itself is among them, because the suites need a newer one than
many machines have; npm must be there already. Packages come from wherever npm is configured to
look. With `--clients` it brings the agents of others, which take 900 MB, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "node"
CLIENTS_FOLDER = ROOT / ".tools" / "clients"
AS_OF = "2026-11-28"
"""Of what a package depends on, npm takes the newest release before this day."""
PACKAGES = {
    "node": "22.23.3",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "gpt-tokenizer": "4.0.0",
    "typescript": "7.0.2",
}
CLIENTS = {
    "@anthropic-ai/claude-code": "2.1.332",
    "@google/gemini-cli": "0.61.0",
    "@openai/codex": "0.171.0",
}
"""Agents that connect to `discovery serve`; run by the Node.js of `PACKAGES`."""


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

    def client(self, program: str) -> list[str]:
        """The command of an agent: `claude`, `codex` or `gemini`."""
        modules = CLIENTS_FOLDER / "node_modules"
        programs = {
            # Its own command is put there by a script of the package; this one needs none.
            "claude": modules / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs",
            "codex": modules / ".bin" / "codex",
            "gemini": modules / ".bin" / "gemini",
        }
        return [str(self.node), str(programs[program])]


def bring(*, install: bool = True) -> NodeTools:
    """The programs, installed first if need be and if `install`.

    Raises:
        NodeToolsMissingError: If they are not there and cannot be, or may not be, brought.
    """
    _bring(FOLDER, PACKAGES, "Node.js, the conformance suite and the Inspector", install=install)
    return NodeTools(FOLDER)


def bring_clients(*, install: bool = True) -> NodeTools:
    """The agents beside the other programs; errors as `bring` has them."""
    tools = bring(install=install)
    _bring(CLIENTS_FOLDER, CLIENTS, "agents, 900 MB", install=install)
    return tools


def _bring(folder: Path, packages: Mapping[str, str], label: str, *, install: bool) -> None:
    ready = folder / ".ready"
    wanted = [AS_OF, *(f"{name}@{version}" for name, version in packages.items())]
    if ready.exists() and ready.read_text(encoding="utf-8").split() == wanted:
        return
    if not install:
        option = " --clients" if folder == CLIENTS_FOLDER else ""
        raise NodeToolsMissingError(f"`python scripts/node_tools.py{option}` brings them")
    npm = shutil.which("npm")
    if npm is None:
        raise NodeToolsMissingError("they need npm, which is not on PATH")
    print(f"== bringing {label}", file=sys.stderr)
    done = npm_install(npm, folder, wanted[1:])
    if done.returncode == 0 and "node" in packages:
        # The one package that needs a script: it brings the program for this processor.
        rebuild = [npm, "rebuild", "--silent", "--prefix", str(folder), "node"]
        done = subprocess.run(rebuild, check=False, capture_output=True, text=True)
    if done.returncode or not _runs(NodeTools(FOLDER).node):
        shutil.rmtree(folder, ignore_errors=True)
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NodeToolsMissingError(f"npm could not bring them: {said[-1] if said else 'no word'}")
    ready.write_text("\n".join(wanted), encoding="utf-8")


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
        bring_clients() if "--clients" in sys.argv[1:] else bring()
    except NodeToolsMissingError as error:
        print(f"   left out: {error}", file=sys.stderr)
