"""What the call log, the metrics and the spans cost a call, beside the same gateway without them.

    python benchmarks/call_log.py [--calls 150] [--rounds 30]

Gateways that differ in `log.calls` alone get the same calls in turns, in one run: small ones, usual
ones, and ones with 2 KB of arguments and of result, in which every call has other words. CPU is
that of all threads of the gateway's process, as the kernel's scheduler counts it. Other processes
evict caches and only ever add to it, so the cheapest quarter of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import string
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from proxy_call import ENVELOPE, RawClient, measured, server_command, started

ARMS = ("off", "metadata", "redacted", "full")
CALLERS = 8
GOAL = 1.10
_CHANCE = random.Random(5)
SECRETS = {
    f"SERVICE_{number}_TOKEN": "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))
    for number in range(10)
}


def words(size: int) -> str:
    """Text as tools return it: words, numbers, dates and addresses."""
    made: list[str] = []
    while sum(map(len, made)) < size:
        number = _CHANCE.randrange(10_000)
        made.append(_CHANCE.choice(["issue", "closed", "by", "the", "author", "of", f"#{number}"]))
        made.append(_CHANCE.choice([f"2026-11-{number % 28 + 1:02}", "in", "src/main.py", "see"]))
    return " ".join(made)[:size]


def cpu_of(client: RawClient) -> float:
    """Seconds that all threads of the program have run, those that have ended, too."""
    return time.clock_gettime((~client.process.pid << 3) | 2)  # as clock_getcpuclockid(3)


async def run(calls: int, rounds: int) -> None:
    command, *args = server_command()
    entry = {"command": command, "args": args, "env": SECRETS}
    async with AsyncExitStack() as stack:
        clients: dict[str, RawClient] = {}
        for arm in ARMS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            config = {"servers": {"target": entry}, "log": {"calls": arm}}
            (folder / "discovery.yaml").write_text(json.dumps(config), encoding="utf-8")
            own = {"DISCOVERY_CONFIG": str(folder / "discovery.yaml")}
            environ = {**os.environ, **own, "DISCOVERY_DATA_DIR": str(folder / "data")}
            environ["DISCOVERY_LOG_LEVEL"] = "error"
            gateway = [sys.executable, "-m", "discovery_cli", "serve"]
            clients[arm] = await stack.enter_async_context(started(gateway, environ))
        for size in (20, 500, 2048):
            await compare(clients, size, calls, rounds)


async def compare(clients: dict[str, RawClient], size: int, calls: int, rounds: int) -> None:
    texts = [words(size) for _ in range(200)]
    spent: dict[str, list[float]] = {arm: [] for arm in clients}
    for number in range(rounds + 1):
        for arm, client in clients.items():
            before = cpu_of(client)
            await measured(caller(client, texts), calls, CALLERS)
            await anyio.sleep(0.35)  # for the entries that wait
            if number:  # the first round starts the server
                spent[arm].append((cpu_of(client) - before) / calls)
    print(f"\n{size} characters in and out, {calls} calls a round, {rounds} rounds\n")
    print("| log.calls | CPU µs a call | of `off` | |")
    print("|---|--:|--:|---|")
    for arm, costs in spent.items():
        ratio = cheapest(costs) / cheapest(spent["off"])
        verdict = "" if ratio <= GOAL else "over the goal"
        print(f"| {arm} | {cheapest(costs) * 1e6:.0f} | {ratio:.3f} | {verdict} |")


def cheapest(costs: list[float]) -> float:
    """The mean of the cheapest quarter."""
    return statistics.mean(sorted(costs)[: max(1, len(costs) // 4)])


def caller(client: RawClient, texts: list[str]) -> Any:
    numbers = iter(range(1_000_000))

    async def call() -> None:
        text = texts[next(numbers) % len(texts)]
        outer = {"tool": "target:echo", "arguments": {"text": text}}
        result = await client.request(
            "tools/call", name="execute_tool", arguments=outer, _meta=ENVELOPE
        )
        assert not result.get("isError"), result

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    anyio.run(run, options.calls, options.rounds)


if __name__ == "__main__":
    main()
