"""What many small servers cost: a start, the status, the settings and claims, on PostgreSQL.

    .venv/bin/python benchmarks/fleet_large.py [--servers 20000] [--tools 5]

Nothing is listed: the listings are applied as if all servers had answered at once. CPU is that of
one process of its own for each row; a start includes the first search.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from catalog import definition  # noqa: E402
from fleet_search import PATIENCE, configure  # noqa: E402
from opening import configured  # noqa: E402
from search_speed import Words  # noqa: E402

from discovery_engine.config.files.location import catalog_key_of  # noqa: E402
from discovery_engine.config.loading.loader import load_settings  # noqa: E402
from discovery_engine.engine.catalog_state import CatalogState  # noqa: E402
from discovery_engine.engine.ingestion import server_parts  # noqa: E402
from discovery_engine.events import EventBus  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.refresh_job import RefreshTarget  # noqa: E402
from discovery_engine.store.registry import Registry  # noqa: E402
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite  # noqa: E402
from discovery_engine.store.transfer import copy_registry  # noqa: E402
from discovery_engine.upstream.connection import connection_fingerprint  # noqa: E402
from discovery_engine.upstream.listing import Listing  # noqa: E402
from tests.postgres import open_server  # noqa: E402

_CLAIMS = 8  # at once, as a worker's slots


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=20_000)
    parser.add_argument("--tools", type=int, default=5, help="of each server")
    options = parser.parse_args()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"{options.servers:,} servers with {options.tools} tools each, load {load}", flush=True)
    with tempfile.TemporaryDirectory() as name, open_server() as server:
        configure(server, "shared_buffers = '128MB'", "max_wal_size = '4GB'")
        folder = Path(name)
        anyio.run(fill, folder, options.servers, options.tools)
        url = server.create_database()
        with (
            closing(open_database(url, timeout=PATIENCE)) as database,
            open_sqlite(folder / "registry.db") as file,
        ):
            copy_registry(file, database)
        config = configured(folder, options.servers, registry="${DATABASE_URL}")
        environ = os.environ | {"DATABASE_URL": url, "DISCOVERY_CONFIG": str(config)}
        environ["DISCOVERY_DATA_DIR"] = str(folder / "machine")
        search = "search", "get file box"
        command(environ, "start of a new machine", *search)
        command(environ, "start", *search)
        os.environ["DATABASE_URL"] = url
        settings = load_settings(config)
        with closing(open_database(url, timeout=PATIENCE)) as database:
            key = catalog_key_of(settings)
            targets = [RefreshTarget(one.name, "as before") for one in settings.servers]
            measure("plan of all servers", lambda: database.plan_refreshes(key, targets))
            measure("settings saved", lambda: database.save_settings(key, settings))
            measure(f"claim of {_CLAIMS}", lambda: claim(database, key))
        command(environ, "fleet status", "fleet", "status")
        command(environ, "fleet status --all", "fleet", "status", "--all")


async def fill(folder: Path, servers: int, tools: int) -> None:
    settings, words = load_settings(configured(folder, servers)), Words(seed=7)
    server_parts.suspicions = lambda *_: {}
    with open_sqlite(folder / "registry.db") as store:
        state = CatalogState(store, EventBus())
        await state.restore(settings)
        async with anyio.create_task_group() as tasks:
            for server in settings.servers:
                definitions = tuple(definition(words, number) for number in range(tools))
                listing = Listing(definitions, (), connection=connection_fingerprint(server))
                result = server_parts.ListingResult(server, listing, time.time())
                tasks.start_soon(state.apply_listing, result)


def command(environ: dict[str, str], what: str, *words: str) -> None:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = [sys.executable, "-m", "discovery_cli", *words]
    done = subprocess.run(program, env=environ, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, 2), done.stderr  # 2: no tool fits
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row(what, time.perf_counter() - began, cpu)


def measure(what: str, work: Callable[[], object]) -> None:
    cpu, began = time.process_time(), time.perf_counter()
    work()
    row(what, time.perf_counter() - began, time.process_time() - cpu)


def row(what: str, seconds: float, cpu: float) -> None:
    print(f"  {what:30s} {seconds:8.3f} s, CPU {cpu:8.3f} s", flush=True)


def claim(database: Registry, key: str) -> None:
    assert len(database.claim_refreshes(key, "worker", limit=_CLAIMS, lease=60.0)) == _CLAIMS


if __name__ == "__main__":
    main()
