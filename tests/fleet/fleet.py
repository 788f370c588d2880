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
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from discovery_engine._util.json import JSONObject
from tests.plain_http import NO_TLS
from tests.ports import free_port

T = TypeVar("T")

TOKEN = "the-token-of-all-gateways-of-this-fleet-0123"
_DISCOVERY = [sys.executable, "-m", "discovery_cli"]
_PATIENCE = 120.0  # seconds for whatever is waited for; it ends what hangs, and judges nothing
_PAUSE = 0.05
_SKEWED_CLOCK = Path(__file__).parent / "skewed_clock"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "fleet", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


class Process:
    """A gateway or a worker, and its log."""

    def __init__(self, name: str, command: list[str], folder: Path, environ: dict[str, str]):
        self.name = name
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
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


class Client:
    """Asks a gateway, or the balancer in front of some."""

    def __init__(self, address: str, *, place: str | None = None) -> None:
        """`place` is the address of this machine that the requests come from."""
        self.address = address
        self.place = place

    def get(self, path: str, **query: str) -> JSONObject:
        return self._asked("GET", path, params=query)

    def post(self, path: str, body: JSONObject | None = None) -> JSONObject:
        return self._asked("POST", path, json=body or {})

    def call(self, meta_tool: str, /, **arguments: Any) -> JSONObject:
        """The result of a meta-tool, as an agent gets it."""
        return self.ask(meta_tool, arguments)

    def ask(
        self, meta_tool: str, arguments: JSONObject, *, token: str = TOKEN, **members: Any
    ) -> JSONObject:
        """The same with a token, and with further members of the request."""
        params = {"name": meta_tool, "arguments": arguments, **members}
        options = _request("tools/call", params, token)
        result: JSONObject = self._asked("POST", "/mcp", **options)["result"]
        return result

    def send(self, method: str, params: JSONObject, **options: Any) -> JSONObject:
        """The answer to a request, a refusal as well; `options` are those of `messages`."""
        return self.messages(method, params, **options)[-1]

    def messages(
        self,
        method: str,
        params: JSONObject,
        *,
        token: str = TOKEN,
        path: str = "/mcp",
        timeout: float = _PATIENCE,
        meta: JSONObject | None = None,
    ) -> list[JSONObject]:
        """The answer to a request, and before it the messages that preceded it.

        Its client leaves after `timeout` seconds; `meta` has further members of `_meta`.
        """
        options = _request(method, params, token, meta)
        answer = httpx2.post(self.address + path, timeout=timeout, verify=NO_TLS, **options)
        lines = [line for line in answer.text.splitlines() if line.startswith("data:")]
        return [json.loads(one.removeprefix("data:")) for one in lines or [answer.text]]

    def notified(
        self, is_last: Callable[[JSONObject], bool], **notifications: Any
    ) -> list[JSONObject]:
        """The messages on the stream of a subscription, up to one."""
        options = _request("subscriptions/listen", {"notifications": notifications}, TOKEN)
        found: list[JSONObject] = []
        url = f"{self.address}/mcp"
        with httpx2.stream("POST", url, timeout=_PATIENCE, verify=NO_TLS, **options) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    found.append(json.loads(line.removeprefix("data:")))
                    if is_last(found[-1]):
                        break
        return found

    def found(self, query: str) -> set[str]:
        """The tools that an agent finds, as `server:tool`."""
        answer = self.call("search_tools", query=query)
        results = answer["_meta"]["discovery/answer"]["results"]
        return {f"{one['server']}:{one['tool']}" for one in results}

    def add(self, name: str, entry: JSONObject) -> JSONObject:
        """Add a server to the registry; returns the plan of it, as it was shown."""
        asked = {"name": name, "entry": entry, "to": "registry"}
        plan = self.post("/api/servers", asked)
        self.post("/api/servers", {**asked, "digest": plan["digest"]})
        return plan

    def _asked(self, method: str, path: str, **options: Any) -> JSONObject:
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        transport = httpx2.HTTPTransport(local_address=self.place, verify=NO_TLS)
        with httpx2.Client(transport=transport, timeout=_PATIENCE) as client:
            answer = client.request(method, self.address + path, headers=headers, **options)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in answer.text.splitlines() if line.startswith("data:")]
            found: JSONObject = json.loads(lines[-1].removeprefix("data:"))
            return found
        if not answer.is_success:
            raise RuntimeError(f"{self.address} refused {method} {path}: {answer.text}")
        said: JSONObject = answer.json()
        return said


class Gateway(Process, Client):
    """One that serves HTTP."""

    address = ""
    place = None

    def wait_healthy(self) -> None:
        wait_until(self._is_healthy, f"{self.name} answers")

    def _is_healthy(self) -> bool:
        if not self.is_running:
            raise RuntimeError(f"{self.name} ended: {self.log.read_text('utf-8')}")
        try:
            return httpx2.get(f"{self.address}/health", timeout=5, verify=NO_TLS).is_success
        except httpx2.HTTPError:
            return False


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

    def start_gateway(self, name: str, *options: str) -> Gateway:
        """A gateway, which does not answer yet."""
        port = free_port()
        command = [*_DISCOVERY, "serve", "--http", f"127.0.0.1:{port}", *options]
        variables = {"DISCOVERY_TOKEN": TOKEN, "DISCOVERY_GATEWAY_NAME": name}
        gateway = Gateway(name, command, *self._place(name, variables))
        gateway.address = f"http://127.0.0.1:{port}"
        self.processes.append(gateway)
        return gateway

    def start_worker(self, name: str, *options: str, skew: float = 0.0) -> Process:
        """A worker, whose machine's clock is wrong by `skew` seconds."""
        paths = filter(None, (str(_SKEWED_CLOCK), os.environ.get("PYTHONPATH")))
        variables = {"PYTHONPATH": os.pathsep.join(paths), "SKEWED_CLOCK": str(skew)}
        command = [*_DISCOVERY, "fleet", "worker", "--daemon", "--json", *options]
        worker = Process(name, command, *self._place(name, variables if skew else {}))
        self.processes.append(worker)
        return worker

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `discovery`, on a machine that does nothing else."""
        folder, environ = self._place("command", {})
        return subprocess.run(
            [*_DISCOVERY, *words],
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


def _request(
    method: str, params: JSONObject, token: str, meta: JSONObject | None = None
) -> dict[str, Any]:
    """A request of the era since 2026-07-28, as options of an HTTP client."""
    named = params.get("name") or params.get("taskId")
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        **({"Mcp-Name": named} if named else {}),
        "Authorization": f"Bearer {token}",
    }
    whole = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": {**META, **(meta or {})}},
    }
    return {"json": whole, "headers": headers}


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
