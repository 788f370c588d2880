"""Gateways and workers of one database, each a process of its own, with a folder of its own.

    fleet = Fleet(folder, url)
    fleet.configure(servers.entries())
    gateway = fleet.start_gateway("a")
    gateway.wait_healthy()
    worker = fleet.start_worker("1")
    gateway.get("/api/search", query="send mail")

Each process has its name as the `application_name` of its connections, so that the database can
tell who wrote what.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from discovery_engine._util.json import JSONObject

T = TypeVar("T")

TOKEN = "the-token-of-all-gateways-of-this-fleet-0123"
_PATIENCE = 120.0  # seconds for whatever is waited for; it ends what hangs, and judges nothing
_PAUSE = 0.05
_SKEWED_CLOCK = Path(__file__).parent / "skewed_clock"
_MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "fleet", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Process:
    """A gateway or a worker, and its log."""

    def __init__(self, name: str, command: list[str], folder: Path, environ: dict[str, str]):
        self.name = name
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "discovery_cli", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environ,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As if the machine had gone: nothing is tidied up."""
        self._process.kill()
        self._process.wait(_PATIENCE)

    def stop(self) -> int:
        """End it in order; returns its exit code."""
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_PATIENCE)


class Gateway(Process):
    """One that serves HTTP."""

    address = ""

    def wait_healthy(self) -> None:
        wait_until(self._is_healthy, f"{self.name} answers")

    def get(self, path: str, **query: str) -> JSONObject:
        return self._asked("GET", path, params=query)

    def post(self, path: str, body: JSONObject | None = None) -> JSONObject:
        return self._asked("POST", path, json=body or {})

    def call(self, meta_tool: str, /, **arguments: Any) -> JSONObject:
        """The result of a meta-tool, as an agent gets it."""
        params = {"name": meta_tool, "arguments": arguments, "_meta": _MODERN}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": meta_tool,
        }
        answer = self._asked("POST", "/mcp", json=message, headers=headers)
        result: JSONObject = answer["result"]
        return result

    def found(self, query: str) -> set[str]:
        """The tools that an agent finds, as `server:tool`."""
        answer = self.call("search_tools", query=query)
        results = answer["_meta"]["discovery/answer"]["results"]
        return {f"{one['server']}:{one['tool']}" for one in results}

    def add(self, name: str, entry: JSONObject) -> JSONObject:
        """Add a server to the registry; returns the plan of it, as it was shown."""
        asked = {"name": name, "entry": entry, "to": "registry"}
        plan = self.post("/api/servers/plan", asked)
        self.post("/api/servers", {**asked, "digest": plan["digest"]})
        return plan

    def _is_healthy(self) -> bool:
        if not self.is_running:
            raise RuntimeError(f"{self.name} ended: {self.log.read_text('utf-8')}")
        try:
            return httpx2.get(f"{self.address}/health", timeout=5).is_success
        except httpx2.HTTPError:
            return False

    def _asked(self, method: str, path: str, **options: Any) -> JSONObject:
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        url = self.address + path
        answer = httpx2.request(method, url, headers=headers, timeout=_PATIENCE, **options)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in answer.text.splitlines() if line.startswith("data:")]
            found: JSONObject = json.loads(lines[-1].removeprefix("data:"))
            return found
        if not answer.is_success:
            raise RuntimeError(f"{self.name} refused {method} {path}: {answer.text}")
        said: JSONObject = answer.json()
        return said


class Fleet:
    """All of its processes end with `close`.

    Args:
        folder: For the configuration, and a folder for each process.
        url: The database, whose address may lead through a proxy.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.config = folder / "discovery.yaml"
        self.processes: list[Process] = []

    def configure(self, servers: Mapping[str, JSONObject], **sections: Any) -> None:
        """Write the one configuration of all; JSON is YAML, too."""
        registry = {"url": "${DATABASE_URL}"}
        whole = {"name": "fleet", "registry": registry, "servers": servers, **sections}
        self.config.write_text(json.dumps(whole), "utf-8")

    def start_gateway(self, name: str) -> Gateway:
        """A gateway, which does not answer yet."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = ["serve", "--http", f"127.0.0.1:{port}"]
        gateway = Gateway(name, command, *self._place(name, {"DISCOVERY_TOKEN": TOKEN}))
        gateway.address = f"http://127.0.0.1:{port}"
        self.processes.append(gateway)
        return gateway

    def start_worker(self, name: str, *options: str, skew: float = 0.0) -> Process:
        """A worker, whose machine's clock is wrong by `skew` seconds."""
        paths = filter(None, (str(_SKEWED_CLOCK), os.environ.get("PYTHONPATH")))
        variables = {"PYTHONPATH": os.pathsep.join(paths), "SKEWED_CLOCK": str(skew)}
        command = ["worker", "--daemon", "--json", *options]
        worker = Process(name, command, *self._place(name, variables if skew else {}))
        self.processes.append(worker)
        return worker

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `discovery`, on a machine that does nothing else."""
        folder, environ = self._place("command", {})
        return subprocess.run(
            [sys.executable, "-m", "discovery_cli", *words],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environ,
            timeout=_PATIENCE,
        )

    def close(self) -> None:
        for process in self.processes:
            if process.is_running:
                process.kill()

    def _place(self, name: str, variables: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        own = {
            "DATABASE_URL": f"{self.url}?application_name={name}",
            "DISCOVERY_CONFIG": str(self.config),
            "DISCOVERY_DATA_DIR": str(folder / "data"),
        }
        return folder, {**os.environ, **own, **variables}


@contextmanager
def open_fleet(folder: Path, url: str) -> Iterator[Fleet]:
    fleet = Fleet(folder, url)
    try:
        yield fleet
    finally:
        fleet.close()


def wait_until(holds: Callable[[], T], what: str, *, patience: float = _PATIENCE) -> T:
    """The first result that is true.

    Raises:
        TimeoutError: If there is none for a long time.
    """
    end = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > end:
            raise TimeoutError(f"it never held that {what}")
        time.sleep(_PAUSE)
    return found
