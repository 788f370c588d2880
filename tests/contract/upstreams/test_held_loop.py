"""Answers that come while this process does not run: held up by work of its own, or stopped."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings, StdioTransport, Timeouts
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import eventually, remote_server, upstreams
from tests.servers.scripted import Asked, Reply, scripted_http, usual

pytestmark = pytest.mark.anyio

LIMIT = 60.0  # seconds of each request, which pass in a moment
STEPS = {"initialize": "starts", "tools/list": "lists", "tools/call": "calls"}

PROGRAM = """
import json, pathlib, sys, time
held, folder = sys.argv[1], pathlib.Path(sys.argv[2])
replies = json.loads(sys.argv[3])
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if "id" not in message:
        continue
    if method == held:
        (folder / "asked").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
    outcome = replies.get(method) or {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
    if method == held:
        (folder / "answered").touch()
"""
REPLIES = """{
    "initialize": {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}},
    "tools/list": {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}},
    "tools/call": {"result": {"content": [{"type": "text", "text": "null"}]}}
}"""


def held_program(method: str, folder: Path) -> ServerSettings:
    arguments = ("-I", "-S", "-c", PROGRAM, method, str(folder), REPLIES)
    return ServerSettings(ServerName("x"), StdioTransport(sys.executable, arguments))


@contextmanager
def held_address(folders: dict[str, Path]) -> Iterator[str]:
    """An address whose path names the folder and the method that it holds."""

    def answer(asked: Asked) -> Reply:
        name, _, held = asked.path.strip("/").partition("/")
        if asked.rpc_method != held:
            return usual(asked)
        (folders[name] / "asked").touch()
        while not (folders[name] / "go").exists():
            time.sleep(0.01)
        return usual(asked)

    with scripted_http(answer, sent=lambda asked: mark(asked, folders)) as url:
        yield url


def mark(asked: Asked, folders: dict[str, Path]) -> None:
    name, _, held = asked.path.strip("/").partition("/")
    if asked.rpc_method == held:
        (folders[name] / "answered").touch()


def hold(folders: dict[str, Path]) -> None:
    """Let all servers answer, and the time of every request pass, while the loop stands still.

    As after a process was stopped: its clock is ahead, and the answers lie there.
    """
    for folder in folders.values():
        (folder / "go").touch()
    while not all((folder / "answered").exists() for folder in folders.values()):
        time.sleep(0.01)
    loop = asyncio.get_running_loop()
    loop.time = lambda: time.monotonic() + LIMIT + 1  # type: ignore[method-assign]


@pytest.mark.requirement("UPS-94")
async def test_what_has_arrived_is_read_before_a_time_is_up(tmp_path: Path) -> None:
    names = [f"{where}-{step}" for where in ("pipe", "http") for step in STEPS.values()]
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
    outcomes: dict[str, object] = {}
    timeouts = Timeouts(connect=LIMIT, list=LIMIT, call=LIMIT)

    async def ask(opened: Upstreams, server: ServerSettings, method: str) -> None:
        try:
            if method == "tools/call":
                await opened.list_tools(replace(server, timeouts=Timeouts()))
                outcomes[server.name] = len(await opened.call(server, "echo", {}))
            else:
                outcomes[server.name] = len((await opened.list_tools(server)).tools)
        except DiscoveryError as error:
            outcomes[server.name] = error

    with held_address(folders) as url:
        async with upstreams() as opened, anyio.create_task_group() as tasks:
            for method, step in STEPS.items():
                for server in (
                    replace(held_program(method, folders[f"pipe-{step}"]), name=f"pipe-{step}"),
                    remote_server(f"{url}/http-{step}/{method}", name=f"http-{step}", kind="http"),
                ):
                    tasks.start_soon(ask, opened, replace(server, timeouts=timeouts), method)
            await eventually(
                lambda: outcomes or all((folder / "asked").exists() for folder in folders.values())
            )
            assert outcomes == {}
            hold(folders)

    assert outcomes == dict.fromkeys(names, 1)
