"""Ten independent calls in one `execute_steps`, beside the slowest of them alone.

    python benchmarks/steps.py [--seconds 0.3] [--catalogs FOLDER]
    python benchmarks/steps.py --tokens

`--tokens` solves three tasks by single calls, by steps and by a script, and counts the turns of the
model, and the tokens of arguments and answers that it writes and reads.

The server waits in each call, as a remote one does. With `--catalogs` (a folder of
`*/catalog.jsonl`) it counts how often two tools of different servers would be hinted to feed each
other by chance: as few lists have output schemas, the inputs of one tool are taken for its results.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import estimated_tokens
from discovery_engine.agent.dispatch import call
from discovery_engine.agent.meta_arguments import Caller
from discovery_engine.agent.search_rendering import feeds
from discovery_engine.engine import Engine, open_engine
from discovery_engine.tools.meta_tools import ALL_META_TOOLS
from discovery_engine.tools.model import ServerName, Tool

SERVER = """
import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("slow")

@server.tool()
async def wait(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "done"

@server.tool()
async def list_issues() -> dict[str, list[dict[str, str | int]]]:
    return {"issues": [
        {"number": n, "title": f"Issue {n}: the export stops at row {n * 37}", "comments": n % 9}
        for n in range(200)
    ]}

@server.tool()
async def close_issue(number: int) -> dict[str, int]:
    return {"closed": number}

server.run()
"""
ISSUES = [n for n in range(200) if n % 9 == 8][:10]
TASKS: dict[str, tuple[list[JSONObject], JSONObject, str]] = {
    "wait for ten tools": (
        [{"tool": "slow:wait", "arguments": {"seconds": 0.01 * n}} for n in range(10)],
        {"steps": [
            {"id": f"s{n}", "tool": "slow:wait", "arguments": {"seconds": 0.01 * n}, "select": "@"}
            for n in range(10)
        ]},
        ("import asyncio\n"
        "await asyncio.gather(*[call('slow:wait', seconds=0.01 * n) for n in range(10)])"),
    ),
    "close the first ten of 200 issues with 8 comments": (
        [{"tool": "slow:list_issues"}]
        + [{"tool": "slow:close_issue", "arguments": {"number": n}} for n in ISSUES],
        {"steps": [
            {"id": "a", "tool": "slow:list_issues"},
            {"id": "b", "tool": "slow:close_issue", "arguments": {"number": {"$from": "item"}},
             "forEach": {
                 "$from": "a",
                 "path": "structuredContent.issues[?comments==`8`].number | [:10]",
             }},
        ]},
        ("issues = (await call('slow:list_issues'))['issues']\n"
        "for issue in [i for i in issues if i['comments'] == 8][:10]:\n"
        "    await call('slow:close_issue', number=issue['number'])"),
    ),
    "count the comments of 200 issues": (
        [{"tool": "slow:list_issues"}],
        {"steps": [
            {"id": "a", "tool": "slow:list_issues",
             "select": "sum(issues[*].comments)"},
        ]},
        "sum(i['comments'] for i in (await call('slow:list_issues'))['issues'])",
    ),
}  # fmt: skip
ROUNDS = 5
PAIRS = 20_000


@asynccontextmanager
async def slow_engine() -> AsyncIterator[Engine]:
    """Open an engine whose one server is `SERVER`."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "server.py").write_text(SERVER)
        config = Path(folder) / "discovery.yaml"
        program = {"command": sys.executable, "args": [str(Path(folder) / "server.py")]}
        sections = {"servers": {"slow": program}, "server": {"steps": True, "script": True}}
        config.write_text(json.dumps(sections))
        async with open_engine(config, data_dir=folder) as engine:
            await engine.refresh()
            yield engine


async def measure(seconds: float) -> tuple[float, float]:
    """The best times of one call, and of ten in steps."""
    async with slow_engine() as engine:
        one = {"tool": "slow:wait", "arguments": {"seconds": seconds}}
        steps = [{"id": f"s{n}", **one} for n in range(10)]
        await timed(engine, "execute_tool", one)
        single = [await timed(engine, "execute_tool", one) for _ in range(ROUNDS)]
        ten = [await timed(engine, "execute_steps", {"steps": steps}) for _ in range(ROUNDS)]
    return min(single), min(ten)


async def count_tokens() -> list[tuple[str, str, int, int]]:
    """Return task, way, turns and tokens of each way."""
    rows = []
    async with slow_engine() as engine:
        for task, (calls, steps, code) in TASKS.items():
            for way, requests in (
                ("execute_tool", calls),
                ("execute_steps", [steps]),
                ("execute_script", [{"code": code}]),
            ):
                tokens = 0
                for arguments in requests:
                    result = await call(engine, ALL_META_TOOLS[way], arguments, Caller())
                    assert not result.get("isError"), result
                    tokens += estimated_tokens(json.dumps(arguments))
                    tokens += sum(estimated_tokens(block["text"]) for block in result["content"])
                rows.append((task, way, len(requests), tokens))
    return rows


async def timed(engine: Engine, tool: str, arguments: JSONObject) -> float:
    start = time.perf_counter()
    result = await call(engine, ALL_META_TOOLS[tool], arguments, Caller())
    assert not result.get("isError"), result
    return time.perf_counter() - start


def chance(path: Path) -> str:
    """How often two tools of different servers are hinted to feed each other."""
    tools = [_tool(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    picked = random.Random(1)
    pairs = (picked.sample(tools, 2) for _ in range(PAIRS))
    apart = [pair for pair in pairs if pair[0].server != pair[1].server]
    hinted = sum(bool(feeds(pair)) for pair in apart)
    return f"{hinted} of {len(apart)} pairs ({hinted / max(len(apart), 1):.2%})"


def _tool(row: dict[str, Any]) -> Tool:
    schema = row.get("input_schema") or {"type": "object"}
    definition = {"name": row["name"], "inputSchema": schema, "outputSchema": schema}
    return Tool.from_mcp(ServerName(row["server"]), definition)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--catalogs", type=Path)
    parser.add_argument("--tokens", action="store_true")
    given = parser.parse_args()
    if given.tokens:
        for row in cast("list[tuple[str, str, int, int]]", anyio.run(count_tokens)):
            print("{:50} {:15} {:3} turns {:6,} tokens".format(*row))
        return
    one, ten = cast("tuple[float, float]", anyio.run(measure, given.seconds))
    print(f"one call {one * 1000:.0f} ms, ten in steps {ten * 1000:.0f} ms: {ten / one:.2f} x")
    for path in sorted(given.catalogs.glob("*/catalog.jsonl")) if given.catalogs else ():
        print(f"{path.parent.name}: {chance(path)}")


if __name__ == "__main__":
    main()
