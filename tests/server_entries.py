"""Servers as entries of `discovery.yaml`, and an engine that uses them as a program does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from discovery_engine import CallbackClient, Client, Engine, ServerReport, open_engine
from discovery_engine.errors import DiscoveryError

Entry = dict[str, Any]
HERE = Path(__file__).parent / "servers"


def fault(
    mode: str = "ok", *, era: str = "legacy", program: str = "fault_server.py", **more: Any
) -> Entry:
    """A program beside `tests/servers/fault_server.py` that misbehaves in one way."""
    arguments = ["-I", "-S", str(HERE / program), mode, "--era", era]
    return {"command": sys.executable, "args": arguments, **more}


def shell(script: str, *arguments: str, **more: Any) -> Entry:
    return {"command": "/bin/sh", "args": ["-c", script, *arguments], **more}


def behind(script: str, entry: Entry) -> Entry:
    """The same server, which a shell starts with `exec "$0" "$@"` at the end of a script."""
    return {**entry, **shell(script, entry["command"], *entry["args"])}


def configure(folder: Path, servers: Mapping[str, Entry], **sections: Any) -> Path:
    """Write a configuration in which nothing waits for a review; returns its path."""
    file = folder / "discovery.yaml"
    content = {"servers": servers, "trust": "open", **sections}
    file.write_text(json.dumps(content), "utf-8")  # JSON is YAML, too
    return file


@asynccontextmanager
async def engine_of(
    folder: Path,
    servers: Mapping[str, Entry],
    *,
    environ: Mapping[str, str] = os.environ,
    **sections: Any,
) -> AsyncIterator[Engine]:
    config = configure(folder, servers, **sections)
    async with open_engine(config, data_dir=folder / "data", environ=environ) as engine:
        yield engine


async def call(
    engine: Engine,
    server: str,
    tool: str = "echo",
    *,
    caller: Client | None = None,
    **arguments: Any,
) -> str:
    """The text that a tool answers."""
    with anyio.fail_after(100):
        result = await engine.execute(server, tool, arguments, caller=caller)
    text: str = result["content"][0]["text"]
    return text


async def outcome(engine: Engine, server: str, tool: str = "echo", **arguments: Any) -> Any:
    """The text that a tool answers, or the error of the call."""
    try:
        return await call(engine, server, tool, **arguments)
    except DiscoveryError as error:
        return error


async def pid_of(engine: Engine, server: str, client: str | None = None) -> int:
    """The process that answers for a server."""
    return int(await call(engine, server, "pid", caller=CallbackClient(id=client)))


async def report_of(engine: Engine, server: str) -> ServerReport:
    return next(report for report in await engine.health() if report.name == server)


async def until(engine: Engine, server: str, holds: Callable[[ServerReport], Any]) -> ServerReport:
    """Wait for a state of a server; returns it."""
    with anyio.fail_after(100):
        while not holds(report := await report_of(engine, server)):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return report
