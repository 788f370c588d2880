"""What a call costs that goes through the gateway, beside the same call made directly.

    python benchmarks/proxy_call.py [--calls 300] [--profile]

Both arms are driven by the same raw client over stdio, interleaved in one run, with 1, 8 and 64
callers at a time. CPU is that of the gateway's process alone, read from the kernel: good as a
figure even on a busy machine; latency is good as a ratio. `--profile` says where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import os
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup

ROOT = Path(__file__).resolve().parent.parent
FAULT_SERVER = ROOT / "tests" / "servers" / "fault_server.py"
CALLERS = (1, 8, 64)
GOAL = 2.0  # milliseconds of the gateway's CPU for a call
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class RawClient:
    """JSON lines to a program and back; cheap, so that it does not hide what is measured."""

    def __init__(self, process: Process, tasks: TaskGroup) -> None:
        self.process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[anyio.Event, list[Any]]] = {}
        tasks.start_soon(self._receive)

    async def _receive(self) -> None:
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("id") in self._waiting:
                    event, box = self._waiting.pop(message["id"])
                    box.append(message)
                    event.set()

    async def request(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        event, box = self._waiting.setdefault(number, (anyio.Event(), []))
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")
        await event.wait()
        return box[0]["result"]

    async def notify(self, method: str) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")

    def cpu(self) -> float:
        """Seconds of user and system time of the program, without its children."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def started(command: list[str], environ: dict[str, str]) -> AsyncIterator[RawClient]:
    async with (
        await anyio.open_process(command, env=environ, stderr=None) as process,
        anyio.create_task_group() as tasks,
    ):
        yield RawClient(process, tasks)
        tasks.cancel_scope.cancel()
        process.terminate()


def server_command() -> list[str]:
    return [sys.executable, "-I", "-S", str(FAULT_SERVER), "ok"]


async def measured(call: Callable[[], Awaitable[Any]], calls: int, callers: int) -> list[float]:
    """The milliseconds that each call took, with so many under way at a time."""
    took: list[float] = []
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            start = time.perf_counter()
            await call()
            took.append((time.perf_counter() - start) * 1000)

    async with anyio.create_task_group() as tasks:
        for _ in range(callers):
            tasks.start_soon(work)
    return took


async def run(calls: int) -> None:
    config = {"servers": {"target": {"command": server_command()[0], "args": server_command()[1:]}}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "discovery.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        own = {"DISCOVERY_CONFIG": str(path), "DISCOVERY_DATA_DIR": folder}
        environ = {**os.environ, **own, "DISCOVERY_LOG_LEVEL": "error"}
        gateway = [sys.executable, "-m", "discovery_cli", "serve"]
        for era in ("2026-07-28", "handshake"):
            print(f"\n{era} client, {calls} calls an arm\n")
            print("| callers | direct p50 / p99 ms | gateway p50 / p99 ms | ratio | CPU ms |")
            print("|--:|--:|--:|--:|--:|")
            async with (
                started(server_command(), environ) as direct,
                started(gateway, environ) as proxied,
            ):
                await compare(direct, proxied, era, calls)


async def compare(direct: RawClient, proxied: RawClient, era: str, calls: int) -> None:
    extra = {"_meta": ENVELOPE} if era.startswith("2026") else {}
    for client in (direct, proxied):
        if not extra:
            await client.request("initialize", **INITIALIZE)
            await client.notify("notifications/initialized")
    arguments = {"text": "hello"}

    async def call_directly() -> None:
        await direct.request("tools/call", name="echo", arguments=arguments, **extra)

    async def call_through() -> None:
        outer = {"tool": "target:echo", "arguments": arguments}
        result = await proxied.request("tools/call", name="execute_tool", arguments=outer, **extra)
        assert not result.get("isError"), result

    await measured(call_through, 50, 4)
    for callers in CALLERS:
        plain = await measured(call_directly, calls, callers)
        before = proxied.cpu()
        through = await measured(call_through, calls, callers)
        cpu = (proxied.cpu() - before) * 1000 / calls
        row(callers, plain, through, cpu)


def row(callers: int, plain: list[float], through: list[float], cpu: float) -> None:
    ratio = statistics.median(through) / statistics.median(plain)
    verdict = "" if cpu <= GOAL else " (over the goal)"
    print(f"| {callers} | {spread(plain)} | {spread(through)} | {ratio:.1f} | {cpu:.2f}{verdict} |")


def spread(took: list[float]) -> str:
    ordered = sorted(took)
    return f"{statistics.median(ordered):.2f} / {ordered[int(len(ordered) * 0.99)]:.2f}"


async def profiled(calls: int) -> None:
    """The same call inside this process: a client on pipes, the gateway, a real upstream."""
    from discovery_engine import open_engine  # noqa: PLC0415
    from discovery_server import stdio  # noqa: PLC0415
    from discovery_server.gateway import Gateway  # noqa: PLC0415

    command, *args = server_command()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "discovery.yaml"
        servers = {"target": {"command": command, "args": args}}
        path.write_text(json.dumps({"servers": servers}), encoding="utf-8")
        stdin, to_server = os.pipe()
        from_server, stdout = os.pipe()
        async with open_engine(path, data_dir=folder) as engine, anyio.create_task_group() as tasks:
            await engine.refresh()
            tasks.start_soon(stdio.serve, Gateway(engine), stdin, stdout)
            profile = cProfile.Profile()
            for number in range(calls + 50):
                if number == 50:
                    profile.enable()
                outer = {"tool": "target:echo", "arguments": {"text": "hello"}}
                params = {"name": "execute_tool", "arguments": outer, "_meta": ENVELOPE}
                message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                os.write(to_server, json.dumps(message).encode() + b"\n")
                await anyio.wait_readable(from_server)
                os.read(from_server, 65536)
            profile.disable()
            os.close(to_server)
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    anyio.run(profiled if options.profile else run, options.calls)


if __name__ == "__main__":
    main()
