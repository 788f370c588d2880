"""A gateway's start on many tools: with the registry in PostgreSQL, beside SQLite.

    .venv/bin/python benchmarks/fleet_opening.py [--tools 200000] [--servers 4000]

Each row is a process of its own that opens the engine and searches once; nothing is listed. A new
machine knows the configuration and the address of the database alone; the row after it is the same
machine again. With `search.where: database` the first gateway makes the documents of all tools.
Everything is measured in one run, on a PostgreSQL that is started for it:

open s, search s   until the engine is open, and from then until the first answer
index s            from then until the index has all tools, and is kept
CPU s              of the process, with what it imports
MB                 its memory then; at most, in parentheses
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from catalog import megabytes  # noqa: E402
from fleet_search import PATIENCE, configure  # noqa: E402
from opening import configured, fill  # noqa: E402

from discovery_engine.engine import open_engine  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite  # noqa: E402
from discovery_engine.store.transfer import copy_registry  # noqa: E402
from tests.postgres import open_server  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=200_000)
    parser.add_argument("--servers", type=int, default=4_000)
    parser.add_argument("--open", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        anyio.run(opened, *options.open)
        return
    print(f"{options.tools:,} tools of {options.servers:,} servers")
    print(f"{'':48s} {'open s':>7} {'search s':>9} {'index s':>8} {'CPU s':>6}    MB", flush=True)
    with tempfile.TemporaryDirectory() as name, open_server() as server:
        configure(server, "shared_buffers = '128MB'", "max_wal_size = '8GB'")
        folder = Path(name)
        anyio.run(fill, folder, options.tools, options.servers)
        row("SQLite", folder, folder)
        url = server.create_database()
        with (
            closing(open_database(url, timeout=PATIENCE)) as database,
            open_sqlite(folder / "registry.db") as file,
        ):
            copy_registry(file, database)
        for where in ("memory", "database"):
            configured(folder, options.servers, registry="${DATABASE_URL}", where=where)
            for machine in ("first", "second") if where == "database" else ("first",):
                data = folder / where / machine
                for start in ("new machine", "again"):
                    row(f"PostgreSQL, search in {where}, {machine} {start}", folder, data, url)


def row(what: str, folder: Path, data: Path, url: str = "") -> None:
    command = [sys.executable, __file__, "--open", str(folder), str(data)]
    environ = os.environ | {"DATABASE_URL": url}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
    opening, search, index, cpu, resident, most = json.loads(done.stdout)
    print(
        f"{what:48s} {opening:7.1f} {search:9.1f} {index:8.1f} {cpu:6.1f} {resident:5.0f}"
        f" ({most:.0f})",
        flush=True,
    )


async def opened(folder: Path, data: Path) -> None:
    began = time.perf_counter()
    async with open_engine(folder / "discovery.yaml", data_dir=data) as engine:
        opening = time.perf_counter() - began
        request = next(iter(engine.view.catalog.visible)).tool.name
        answer = await engine.search(request)
        assert answer.hits
        assert "REGISTRY_UNAVAILABLE" not in [one.code for one in answer.notices]
        search = time.perf_counter() - began - opening
        await engine.refresh(only_due=True)  # as a gateway does next: the index is kept
        index = time.perf_counter() - began - opening - search
        memory = megabytes("VmRSS"), megabytes("VmHWM")
        print(json.dumps([opening, search, index, time.process_time(), *memory]), flush=True)


if __name__ == "__main__":
    main()
