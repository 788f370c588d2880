"""Ten independent calls in one `execute_steps`, beside the slowest of them alone.

    python benchmarks/steps.py [--seconds 0.3] [--catalogs FOLDER]

The server waits in each call, as a remote one does. With `--catalogs` (a folder of
`*/catalog.jsonl`) it counts how often two tools of different servers would be hinted to feed each
other by chance: as few lists have output schemas, the inputs of one tool are taken for its results.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import anyio

from discovery_engine._util.json import JSONObject
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

server.run()
"""
ROUNDS = 5
PAIRS = 20_000


async def measure(seconds: float) -> tuple[float, float]:
    """The best times of one call, and of ten in steps."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "server.py").write_text(SERVER)
        config = Path(folder) / "discovery.yaml"
        program = {"command": "python", "args": [str(Path(folder) / "server.py")]}
        config.write_text(json.dumps({"servers": {"slow": program}, "server": {"steps": True}}))
        async with open_engine(config, data_dir=folder) as engine:
            await engine.refresh()
            one = {"tool": "slow:wait", "arguments": {"seconds": seconds}}
            steps = [{"id": f"s{n}", **one} for n in range(10)]
            await timed(engine, "execute_tool", one)
            single = [await timed(engine, "execute_tool", one) for _ in range(ROUNDS)]
            ten = [await timed(engine, "execute_steps", {"steps": steps}) for _ in range(ROUNDS)]
    return min(single), min(ten)


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
    given = parser.parse_args()
    one, ten = cast("tuple[float, float]", anyio.run(measure, given.seconds))
    print(f"one call {one * 1000:.0f} ms, ten in steps {ten * 1000:.0f} ms: {ten / one:.2f} x")
    for path in sorted(given.catalogs.glob("*/catalog.jsonl")) if given.catalogs else ():
        print(f"{path.parent.name}: {chance(path)}")


if __name__ == "__main__":
    main()
