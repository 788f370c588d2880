"""From "I need a server for X" to a working tool, as a person does it: with the real npx and uvx.

The registry is on this machine and speaks the official API; the packages are real ones, from
wherever npm and uv are configured to look.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.node_tools import AS_OF
from tests.e2e.commands import Shell, need
from tests.e2e.serving import REAL_SERVERS
from tests.forked import Preloaded
from tests.servers.mcp_registry_server import listed, registry_server
from tests.servers.programs import none_left_running

pytestmark = pytest.mark.e2e
UV = REAL_SERVERS / "uv" / "bin"
NPM_PACKAGE, PYTHON_PACKAGE = "@modelcontextprotocol/server-everything", "mcp-server-time"
_PROBE = 60.0  # seconds


@pytest.fixture
def person(tmp_path: Path, forked: Preloaded) -> Iterator[Shell]:
    """Somebody with an empty home, whose npm and uv are configured as where the tests run."""
    config = tmp_path / "discovery.yaml"
    config.write_text("servers: {}\n", "utf-8")
    with none_left_running():
        yield Shell(config, tmp_path, forked, cwd=tmp_path)


def environ() -> dict[str, str]:
    npmrc = os.environ.get("NPM_CONFIG_USERCONFIG", str(Path.home() / ".npmrc"))
    path = f"{UV}{os.pathsep}{os.environ.get('PATH', '')}"
    uv = Path.home() / ".config" / "uv" / "uv.toml"
    own = {"PATH": path, "NPM_CONFIG_USERCONFIG": npmrc, "NPM_CONFIG_BEFORE": AS_OF}
    return own | ({"UV_CONFIG_FILE": str(uv)} if uv.exists() else {})


def skip_without(*command: str) -> None:
    """Skip a test whose package the registry does not have, or cannot be asked for."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=os.environ | environ(),
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_PROBE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{command[0]} cannot be asked: {error}")
    if done.returncode or not done.stdout.strip():
        pytest.skip(f"`{' '.join(command)}` finds nothing: {done.stderr.strip()[-200:]}")


def entry(name: str, kind: str, identifier: str, version: str, **members: Any) -> Any:
    package = {"registryType": kind, "identifier": identifier, "version": version, **members}
    return listed(name, version=version, packages=[package], description=f"Test of {identifier}")


def answer(person: Shell, *words: str) -> str:
    done = person.run(words, **environ())
    assert done.code == 0, done.err
    return done.out


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.requirement("INS-1", "INS-20", "INS-42")
def test_a_person_finds_installs_and_uses_an_npm_server(person: Shell) -> None:
    need("everything")
    manifest = REAL_SERVERS / "everything" / "node_modules" / NPM_PACKAGE / "package.json"
    version = json.loads(manifest.read_text("utf-8"))["version"]
    skip_without("npm", "view", f"{NPM_PACKAGE}@{version}", "version")
    token = {"name": "DEMO_TOKEN", "isSecret": True, "isRequired": True}
    name = "io.github.modelcontextprotocol/everything"
    everything = entry(name, "npm", NPM_PACKAGE, version, environmentVariables=[token])
    with registry_server(everything) as registry:
        person.config.write_text(json.dumps(configuration(registry.url)), "utf-8")
        assert name in answer(person, "marketplace", "search", "everything")
        assert "DEMO_TOKEN" in answer(person, "marketplace", "show", name)

        refused = person.run(["marketplace", "install", name, "--yes"], **environ())
        words = ["marketplace", "install", name, "--secret", "DEMO_TOKEN", "--yes"]
        done = person.run(words, stdin="hunter-2\n", **environ())

    assert (refused.code, "DEMO_TOKEN" in refused.err) == (6, True)
    assert done.code == 0, done.err
    assert f"starts   npx -y {NPM_PACKAGE}@{version}\n" in done.out
    assert "5" in answer(person, "execute", "everything:get-sum", "a=2", "b=3")
    assert '"DEMO_TOKEN": "hunter-2"' not in done.out + person.config.read_text()
    answer(person, "remove", "everything", "--yes", "--secrets", "delete")
    assert json.loads(answer(person, "list", "--json"))["servers"] == []


def configuration(registry: str) -> dict[str, Any]:
    sources = [{"type": "mcp-registry", "id": "here", "url": registry}]
    return {"servers": {}, "marketplace": {"sources": sources}}
