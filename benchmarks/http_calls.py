"""Calls a second through `serve --http`, with 1 and 64 clients that keep their connection.

    python benchmarks/http_calls.py [--seconds 4]

Each client has a session of its own (2025-11-25) and one call in flight; the tool is `echo` of a
local server. CPU is that of the gateway's process alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headline import INITIALIZE, made_up, ours

CLIENTS = (1, 8, 64)


class HttpClient:
    """A client of streamable HTTP, as small as one can be."""

    def __init__(self, token: str = "") -> None:
        self._authorization = f"authorization: Bearer {token}\r\n" if token else ""

    async def open(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._session = ""
        await self.post({"id": 0, "method": "initialize", "params": INITIALIZE})
        await self.post({"method": "notifications/initialized"})

    async def post(self, message: dict) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        session = f"mcp-session-id: {self._session}\r\n" if self._session else ""
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n"
            f"{self._authorization}{session}content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if found := re.search(r"mcp-session-id: (\S+)", head):
            self._session = found[1]
        if found := re.search(r"content-length: (\d+)", head):
            return await self._reader.readexactly(int(found[1]))
        answer = b""
        while (size := int(await self._reader.readline(), 16)) > 0:
            answer += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return answer

    async def call(self, number: int, tool: dict) -> None:
        answer = await self.post({"id": number, "method": "tools/call", "params": tool})
        assert b"hello" in answer, answer


async def load(port: int, clients: int, tool: dict, seconds: float) -> list[float]:
    """The milliseconds of each call."""
    took: list[float] = []
    ends = time.perf_counter() + seconds

    async def work() -> None:
        client = HttpClient()
        await client.open(port)
        number = 0
        while (began := time.perf_counter()) < ends:
            await client.call(number := number + 1, tool)
            took.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(work() for _ in range(clients)))
    return took


def cpu(pid: int) -> float:
    """Microseconds of CPU of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text("ascii").split()[0]) for one in tasks) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        one = ours(Path(folder), made_up(1000))
        command = [sys.executable, "-m", "discovery_cli", "serve", "--http", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, "--no-token"],
            env={**os.environ, **one.spec["environ"], "DISCOVERY_LOG_LEVEL": "warning"},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            line = next(line for line in process.stderr if "http://" in line)
            port = int(re.search(r":(\d+)/", line)[1])
            asyncio.run(load(port, 1, one.call, 1.0))
            print("| clients | calls/s | p50 ms | p99 ms | CPU us |\n|--:|--:|--:|--:|--:|")
            for clients in CLIENTS:
                before = cpu(process.pid)
                took = sorted(asyncio.run(load(port, clients, one.call, seconds)))
                spent = (cpu(process.pid) - before) / len(took)
                p50, p99 = statistics.median(took), took[int(len(took) * 0.99)]
                rate = len(took) / seconds
                print(f"| {clients} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {spent:,.0f} |")
            process.terminate()


if __name__ == "__main__":
    main()
