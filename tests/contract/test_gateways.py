"""What `health`, `doctor` and `list` say of servers while gateways run: specs/health.md."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.servers.programs import HERE

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}}


class Gateway:
    """A `discovery serve` that is spoken to on its standard streams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._count = 0
        client = {"clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", {**HELLO, **client})
        self._send(method="notifications/initialized")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        self._send(id=self._count, method=method, params=params)
        assert self.process.stdout
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._count:
                return answer
        raise AssertionError("the gateway ended")

    def call(self, tool: str) -> dict[str, Any]:
        return self.ask("tools/call", {"name": "execute_tool", "arguments": {"tool": tool}})

    def _send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@contextmanager
def gateway(home: Discovery) -> Iterator[Gateway]:
    with subprocess.Popen(
        [sys.executable, "-m", "discovery_cli", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home.home,
        env=home.environ,
    ) as process:
        try:
            yield Gateway(process)
        finally:
            process.kill()


def configured(folder: Path, forked: Preloaded, *words: str) -> Discovery:
    """A home with a server of this folder's, whose tools are known."""
    (folder / "tools.txt").write_text("hang pid")
    script, *rest = words
    args = ["-I", "-S", str(HERE / script), *rest]
    entry = {"command": sys.executable, "args": args, "timeouts": {"call": 1}}
    (folder / "discovery.yaml").write_text(json.dumps({"servers": {"sick": entry}}), "utf-8")
    home = Discovery(folder, forked)
    assert home("refresh").code == 0
    return home


async def until_said(home: Discovery, count: int, status: str) -> list[dict[str, Any]]:
    """What the gateways say of the server, once so many do and the worst is that."""
    with anyio.fail_after(60):
        while True:
            [server] = (await anyio.to_thread.run_sync(home, "health", "--json")).json["servers"]
            said: list[dict[str, Any]] = server["gateways"]
            if len(said) == count and said[0]["status"] == status:
                return said


@pytest.mark.thorough
@pytest.mark.requirement("HEA-30")
async def test_what_a_running_gateway_calls_sick_is_never_reported_as_well(
    tmp_path: Path, forked: Preloaded
) -> None:
    home = configured(tmp_path, forked, "changing_server.py", "tools.txt")
    with gateway(home) as opened:
        opened.call("sick:hang")
        [said] = await until_said(home, 1, "degraded")
        health, doctor, listed = home("health"), home("doctor"), home("list", "--status")
        pid = opened.process.pid
    after = home("health")

    assert said["pid"] == pid
    for done in (health, doctor, listed):
        [line] = [line for line in done.out.splitlines() if "sick " in line]
        assert line.startswith("✗")
        assert f"process {pid}" in line
    assert (health.code, doctor.code, after.code) == (7, 7, 0)
    assert list((tmp_path / "data" / "gateways").iterdir()) == []
