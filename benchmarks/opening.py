"""What opening the engine costs, and the first search, by the number of remembered tools.

    python benchmarks/opening.py [--tools 100 1000 10000 50000]

Each figure is CPU time of one process of its own, or of the filling, over ten servers; ratios
between the rows say whether anything costs by the tool. The catalog is filled without any program:
listings are applied as if ten servers had answered, one after another. Nothing is scanned.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from catalog import definition, megabytes
from search_speed import Words

from discovery_engine.config.loading.loader import load_settings
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.engine.ingestion import server_parts
from discovery_engine.events import EventBus
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.upstream.connection import connection_fingerprint
from discovery_engine.upstream.listing import Listing

SERVERS = 10
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, nargs="+", default=[100, 1_000, 10_000, 50_000])
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        anyio.run(opened, options.open)
        return
    print(f"{'tools':>7} {'fill s':>8} {'imports ms':>11} {'open ms':>8} {'instructions ms':>16}"
          f" {'1st search ms':>14} {'MB':>5}")  # fmt: skip
    for tools in options.tools:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            spent = anyio.run(fill, folder, tools)
            words = [sys.executable, __file__, "--open", str(folder)]
            runs = [subprocess.run(words, capture_output=True, check=True) for _ in range(ROUNDS)]
            best = min((json.loads(run.stdout) for run in runs), key=lambda one: one[1])
        imports, opening, instructions, search, resident = best
        print(f"{tools:>7,} {spent:8.1f} {imports:11.0f} {opening:8.1f} {instructions:16.1f}"
              f" {search:14.1f} {resident:5.0f}", flush=True)  # fmt: skip


async def fill(folder: Path, tools: int, servers: int = SERVERS) -> float:
    """Returns CPU seconds."""
    settings, words = load_settings(configured(folder, servers)), Words(seed=7)
    scan, server_parts.suspicions = server_parts.suspicions, lambda *_: {}
    began = time.process_time()
    with open_sqlite(folder / "registry.db") as store:
        state = CatalogState(store, EventBus())
        await state.restore(settings)
        for server in settings.servers:
            definitions = tuple(definition(words, n) for n in range(tools // servers))
            listing = Listing(definitions, (), connection=connection_fingerprint(server))
            await state.apply_listing(server_parts.ListingResult(server, listing, time.time()))
        await state.save_index()
    server_parts.suspicions = scan
    return time.process_time() - began


def configured(folder: Path, servers: int, *, registry: str = "", where: str = "memory") -> Path:
    """The configuration that is written."""
    config = folder / "discovery.yaml"
    entries = {f"server{n}": {"command": f"program{n}"} for n in range(servers)}
    content = {"servers": entries, "search": {"where": where}}
    config.write_text(json.dumps(content | ({"registry": {"url": registry}} if registry else {})))
    return config


async def opened(folder: Path) -> None:
    from discovery_engine.agent.instructions import render_instructions  # noqa: PLC0415 - measured
    from discovery_engine.engine import open_engine  # noqa: PLC0415 - measured

    spent = [time.process_time()]
    async with open_engine(folder / "discovery.yaml", data_dir=folder) as engine:
        spent.append(time.process_time())
        render_instructions(engine.view)
        spent.append(time.process_time())
        await engine.search("get file box")
        spent.append(time.process_time())
    steps = [(after - before) * 1000 for before, after in zip([0.0, *spent], spent, strict=False)]
    print(json.dumps([*steps, megabytes("VmRSS")]))


if __name__ == "__main__":
    main()
