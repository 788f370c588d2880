"""Gateways that share a data folder and an address, each started by a client of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2

from discovery_engine._util.json import JSONObject
from tests.plain_http import NO_TLS
from tests.ports import free_port

_PATIENCE = 60.0  # seconds for whatever is waited for
_PAUSE = 0.05
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
TOKEN = "a-token-of-the-shared-gateways"


class SharedGateway:
    """One of them, and its client on stdio."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._count = 0
        self.ask("initialize", HELLO)

    def ask(self, method: str, params: JSONObject) -> JSONObject:
        self._count += 1
        assert self.process.stdin
        assert self.process.stdout
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        answer: JSONObject = json.loads(self.process.stdout.readline())
        return answer

    def leave(self) -> int:
        """End as clients end a server."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(_PATIENCE)


class Gateways(AbstractContextManager["Gateways"]):
    """All of them end with the block."""

    def __init__(self, folder: Path, *, environ: Mapping[str, str] | None = None) -> None:
        """`folder` has their configuration, which is an empty one if there is none."""
        self.folder = folder
        self._environ = os.environ if environ is None else environ
        if not (config := folder / "discovery.yaml").exists():
            config.write_text("servers: {}\n")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.running: dict[int, SharedGateway] = {}

    def start(self) -> SharedGateway:
        own = {"DISCOVERY_CONFIG": str(self.folder / "discovery.yaml"), "DISCOVERY_TOKEN": TOKEN}
        own |= {"DISCOVERY_DATA_DIR": str(self.folder / "data")}
        environ = {**own, **self._environ}
        command = [sys.executable, "-m", "discovery_cli", "serve", "--stdio"]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--http", f"127.0.0.1:{self.port}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                env=environ,
            )
        started = self.running[process.pid] = SharedGateway(process)
        return started

    def serving(self) -> int:
        """The process that listens, once one does."""
        for _ in _tries():
            inode = _listening(self.port)
            for pid in self.running:
                if inode and f"socket:[{inode}]" in _open_files(pid):
                    return pid
        raise AssertionError("none listens")

    def ask(self, *, token: str = TOKEN) -> httpx2.Response:
        """An `initialize` over HTTP, once somebody serves it."""
        self.serving()
        content = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
        }
        return httpx2.post(
            self.url, json=content, headers=headers, timeout=_PATIENCE, verify=NO_TLS
        )

    def wait_logged(self, words: str) -> None:
        for _ in _tries():
            if words in self.log():
                return
        raise AssertionError("that is not logged")

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def __exit__(self, *_: object) -> None:
        for gateway in self.running.values():
            with gateway.process as process:  # closes its streams
                process.kill()


def _tries() -> Any:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        yield None
        time.sleep(_PAUSE)


def _listening(port: int) -> str:
    """The inode of the socket that listens on a port of 127.0.0.1; empty if none does."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == f"0100007F:{port:04X}" and fields[3] == "0A":
            return fields[9]
    return ""


def _open_files(pid: int) -> set[str]:
    try:
        return {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()
