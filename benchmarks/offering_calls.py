"""What reading a resource and getting a prompt cost the gateway, beside a call of a tool.

    python benchmarks/offering_calls.py [--calls 400] [--resources 1000]

One server, one gateway over stdio, one raw client; the kinds of requests are interleaved in one
run. CPU is that of the gateway's process alone, read from the kernel: good as a figure even on a
busy machine. The goal is that none costs more than a tool's call through `execute_tool`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from proxy_call import INITIALIZE, ROOT, RawClient, started

SERVER = ROOT / "tests" / "servers" / "offering_server.py"
ROUNDS = 40


def world(resources: int) -> dict[str, Any]:
    about = "A page of the handbook, in a few words that are longer than its name."
    pages = [
        {"uri": f"file:///docs/page_{n:05}", "name": f"page_{n}", "description": about}
        for n in range(resources)
    ]
    arguments = [{"name": "code", "required": True}]
    return {
        "plain": True,
        "tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {}}}],
        "resources": pages,
        "templates": [{"uriTemplate": "db://{table}/{id}", "name": "rows"}],
        "prompts": [{"name": "review", "description": about, "arguments": arguments}],
    }


def requests(client: RawClient) -> dict[str, Callable[[], Awaitable[Any]]]:
    call = {"name": "execute_tool", "arguments": {"tool": "docs:echo", "arguments": {"text": "x"}}}
    return {
        "a call of a tool": lambda: client.request("tools/call", **call),
        "a listed resource": lambda: client.request(
            "resources/read", uri="file:///docs/page_00007"
        ),
        "a resource of a template": lambda: client.request("resources/read", uri="db://users/7"),
        "a prompt": lambda: client.request("prompts/get", name="review", arguments={"code": "x"}),
        "a completion": lambda: client.request(
            "completion/complete",
            ref={"type": "ref/prompt", "name": "review"},
            argument={"name": "code", "value": "x"},
        ),
        "a page of resources": lambda: client.request("resources/list"),
    }


async def run(calls: int, resources: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        offered, config = Path(folder) / "world.json", Path(folder) / "discovery.yaml"
        offered.write_text(json.dumps(world(resources)), encoding="utf-8")
        command = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(offered)]}
        rules = [{"pattern": "*secret*", "enabled": False}]
        config.write_text(json.dumps({"servers": {"docs": command}, "resourceRules": rules}))
        own = {"DISCOVERY_CONFIG": str(config), "DISCOVERY_DATA_DIR": folder}
        environ = {**os.environ, **own, "DISCOVERY_LOG_LEVEL": "error"}
        gateway = [sys.executable, "-m", "discovery_cli", "serve"]
        async with started(gateway, environ) as client:
            await client.request("initialize", **INITIALIZE)
            await client.notify("notifications/initialized")
            await measure(client, calls)


def on_processor(client: RawClient) -> float:
    """Seconds of the gateway's event loop, to the nanosecond: ticks would be too coarse here."""
    ran = Path(f"/proc/{client.process.pid}/schedstat").read_text("ascii").split()[0]
    return int(ran) / 1e9


async def measure(client: RawClient, calls: int) -> None:
    kinds = requests(client)
    for ask in kinds.values():  # listed, compiled and cached before anything is measured
        for _ in range(20):
            await ask()
    spent = dict.fromkeys(kinds, 0.0)
    for _ in range(ROUNDS):
        for kind, ask in random.sample(list(kinds.items()), len(kinds)):
            before = on_processor(client)
            for _ in range(calls // ROUNDS):
                await ask()
            spent[kind] += on_processor(client) - before
    each = {kind: 1000 * seconds / (calls // ROUNDS * ROUNDS) for kind, seconds in spent.items()}
    tool = each["a call of a tool"]
    print("| request | CPU of the gateway, ms | beside a call of a tool |")
    print("|---|--:|--:|")
    for kind, cost in each.items():
        print(f"| {kind} | {cost:.2f} | {cost / tool:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--resources", type=int, default=1000)
    options = parser.parse_args()
    anyio.run(run, options.calls, options.resources)
