"""What an answer costs: CPU of the meta-tools in process, with many tools and with many servers.

    python benchmarks/answers.py [--profile search_tools]

Each figure is thread time of a call through `agent.dispatch`, a median in microseconds: of the
first time something is asked, and of the second. The catalogs are made up, every upstream is
asleep, and each world has a process of its own, for its memory's sake.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
from catalog import Fleet, definition, judged, megabytes
from msgspec.structs import replace
from search_speed import Words

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.engine import Engine, open_engine
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.meta_tools import META_TOOLS
from discovery_engine.tools.model import Tool
from discovery_engine.upstream.connection import connection_fingerprint

WORLDS = ((10, 100, 0), (10, 1000, 0), (10, 1000, 10), (30, 10, 0), (1500, 10, 0))
"""Servers, tools of each, and rules, some of which disable tools."""
QUESTIONS = {"search_tools": 100, "list_tools": 5, "get_tool_details": 100, "list_mcp_servers": 5}
ROUNDS = 5

Asked = tuple[str, JSONObject]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", choices=META_TOOLS, help="say where the time goes")
    parser.add_argument("--world", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.world:
        fleet = Fleet(*map(int, options.world.split("x")))
        anyio.run(measure, fleet, options.profile)
        return
    print(f"servers  tools rules  {'meta-tool':<18} {'first us':>9} {'again us':>9}")
    for world in WORLDS:
        extra = ["--profile", options.profile] if options.profile else []
        command = [sys.executable, __file__, "--world", "x".join(map(str, world)), *extra]
        subprocess.run(command, check=True)


async def measure(fleet: Fleet, profiled: str | None) -> None:
    servers, tools, rules = fleet.sizes
    with tempfile.TemporaryDirectory() as folder:
        remember(fleet, Path(folder))
        # Nothing is approved here, and nothing is to be started.
        async with open_engine(fleet.settings, data_dir=folder, environ={}) as engine:
            await ask(engine, ("search_tools", {"query": "get user file"}))  # loads what it needs
            gc.collect()
            before = megabytes("VmRSS")
            for name in QUESTIONS:
                questions = list(questions_for(engine, name))
                first = [await spent(engine, one) for one in questions]
                again = [await least(engine, one) for one in questions]
                print(
                    f"{servers:7d} {servers * tools:6d} {rules:5d}  {name:<18} "
                    f"{statistics.median(first):9.0f} {statistics.median(again):9.0f}",
                    flush=True,
                )
                if name == profiled:
                    await profile(engine, questions)
            gc.collect()
            print(f"{'':21} {before:.0f} MB resident before, {megabytes('VmRSS'):.0f} MB after")


def remember(fleet: Fleet, folder: Path) -> None:
    """Store the catalog of a fleet as a run that listed every server leaves it."""
    settings = fleet.settings
    words = Words(seed=7)
    _, count, _ = fleet.sizes
    listed = [
        [Tool.from_mcp(server.name, definition(words, n)) for n in range(count)]
        for server in settings.servers
    ]
    parts = [
        replace(part, connection=connection_fingerprint(server))
        for server, part in zip(settings.servers, judged(fleet, listed), strict=True)
    ]
    name = catalog_key_of(settings)
    with open_sqlite(folder / "registry.db") as store:
        store.save_settings(name, settings)
        store.save_parts(name, parts, revision=1)


def questions_for(engine: Engine, name: str) -> Iterator[Asked]:
    words = Words(seed=7)  # the vocabulary of the catalog
    entries = list(engine.view.catalog.visible)
    count = QUESTIONS[name]
    some = entries[:: max(1, len(entries) // count)][:count]
    for number in range(count):
        entry = some[number % len(some)]
        if name == "search_tools":
            yield name, {"query": " ".join(words.some(2, 8))}
        elif name == "list_tools":
            yield name, {"server": entry.tool.server}
        elif name == "get_tool_details":
            yield name, {"tool": str(entry.key)}
        else:
            yield name, {}


async def ask(engine: Engine, asked: Asked) -> JSONObject:
    name, arguments = asked
    return await call(engine, META_TOOLS[name], arguments, Caller())


async def spent(engine: Engine, asked: Asked) -> float:
    start = time.thread_time()
    await ask(engine, asked)
    return (time.thread_time() - start) * 1e6


async def least(engine: Engine, asked: Asked) -> float:
    return min([await spent(engine, asked) for _ in range(ROUNDS)])


async def profile(engine: Engine, questions: Sequence[Asked]) -> None:
    found = cProfile.Profile()
    for asked in questions:
        found.enable()
        await ask(engine, asked)
        found.disable()
    pstats.Stats(found).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
