"""`discovery serve` as a program, with a configuration made for one test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from discovery_engine._util.json import JSONObject

ROOT = Path(__file__).resolve().parents[2]
FAULT_SERVER = ROOT / "tests" / "servers" / "fault_server.py"
REAL_SERVERS = ROOT / ".tools" / "servers"


def fault_entry(mode: str = "ok", **entry: Any) -> JSONObject:
    # Of one era: one that speaks both is spoken to in the other one where its start takes long, and
    # has other instructions there, which wait for review.
    arguments = ["-I", "-S", str(FAULT_SERVER), mode, "--era", "modern"]
    return {"command": sys.executable, "args": arguments, **entry}


@dataclass(frozen=True)
class Home:
    """A folder with a configuration and what is remembered."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "discovery.yaml"

    @property
    def environ(self) -> dict[str, str]:
        own = {
            "DISCOVERY_CONFIG": str(self.config),
            "DISCOVERY_DATA_DIR": str(self.folder / "data"),
        }
        return {**os.environ, **own}

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the token that was made for this home."""
        token = (self.folder / "data" / "http-token").read_text("ascii").strip()
        return {"Authorization": f"Bearer {token}"}

    def write(self, servers: Mapping[str, JSONObject], **sections: Any) -> None:
        """JSON is YAML, too."""
        text = json.dumps({"servers": servers, **sections})
        self.config.write_text(text, encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "discovery_cli", "serve", *options]

    @asynccontextmanager
    async def client(self, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
        """The SDK's client on stdio, with further options of its own."""
        command, *args = self.command()
        program = StdioServerParameters(
            command=command, args=args, env=self.environ, cwd=self.folder
        )
        with (self.folder / "stderr.log").open("a", encoding="utf-8") as errors:
            with anyio.fail_after(60):
                transport = stdio_client(program, errlog=errors)
                client = Client(transport, mode=mode, read_timeout_seconds=60, **options)
                async with client:
                    yield client

    @contextmanager
    def process(
        self, *options: str, around: Sequence[str] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The bare program, for what no client shows; killed at the end if need be.

        `around` is a command that runs it.
        """
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(
            [*around, *self.command(*options)], env=self.environ, cwd=self.folder, **pipes
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def http(self, host: str = "127.0.0.1", *options: str) -> Iterator[str]:
        """The address of `discovery serve --http`; ended with SIGTERM, which must succeed.

        On this machine no token is asked for, since few clients here are about tokens.
        """
        options = options or ("--no-token",)
        with self.process("--http", f"{host}:0", *options) as process:
            yield listening_at(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def listening_at(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        word, _, address = line.decode().strip().partition("serving MCP at ")
        if address and not word:
            return address
    raise AssertionError(f"it ended with {process.wait()}")


async def text_of(client: Client, name: str, /, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "\n".join(block.text for block in result.content)


async def found_by(client: Client, query: str, server: str) -> str:
    """What a search answers once this server has started: the answer says when to ask again."""
    while f"{server}: starting" in (text := await text_of(client, "search_tools", query=query)):
        pass
    return text
