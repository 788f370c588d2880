"""From `discovery init --global` to an agent that finds tools, started as desktop clients do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.e2e.serving import FAULT_SERVER, found_by

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

PLAIN = {"command": str(Path(sys.executable).parent / "discovery"), "args": ["serve"]}


class Person:
    """A home with a client's file that names a server by its bare name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir()
        program = self.bin / "my-server"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAULT_SERVER} "$@"\n', "utf-8")
        program.chmod(0o755)
        (home / ".cursor").mkdir()
        entry = {"command": "my-server", "args": ["ok"], "env": {"TOKEN": "literal"}}
        file = {"mcpServers": {"mine": entry}}
        (home / ".cursor" / "mcp.json").write_text(json.dumps(file), "utf-8")

    def init(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command, run in a shell with a long PATH."""
        environ = {"HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(
            [PLAIN["command"], "init", "--global", "--yes", *words],
            capture_output=True,
            check=True,
            cwd=self.home,
            env=environ,
            text=True,
            timeout=60,
        )

    @asynccontextmanager
    async def client(self, entry: Mapping[str, dict[str, Any]]) -> AsyncIterator[Client]:
        """The SDK's client, which starts an entry in the folder `/` with hardly any environment."""
        given = [f"{name}={value}" for name, value in entry.get("env", {}).items()]
        bare = ["-i", "PATH=/usr/bin:/bin", f"HOME={self.home}", *given]
        words = [*bare, entry["command"], *entry["args"]]
        program = StdioServerParameters(command="/usr/bin/env", args=words, cwd="/")
        with (self.home / "stderr.log").open("a", encoding="utf-8") as errors:
            with anyio.fail_after(60):
                async with Client(stdio_client(program, errlog=errors)) as client:
                    yield client


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.mark.requirement("CLI-40", "CON-1")
async def test_the_written_entry_works_wherever_a_client_starts_it(person: Person) -> None:
    person.init("--connect", "cursor")
    file = json.loads((person.home / ".cursor" / "mcp.json").read_text())
    entry = file["mcpServers"]["discovery"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][1] == str(person.home / ".config" / "discovery" / "discovery.yaml")

    async with person.client(entry) as client:
        found = await found_by(client, "echo", "mine")

    assert "mine:echo" in found
