"""What it costs to list servers of which nothing has changed, beside the first time.

    .venv/bin/python benchmarks/fleet_unchanged.py [--servers 10000] [--tools 20]

A worker's steps with a real PostgreSQL, from a claim to its result: reading the list, looking for
what means harm, accepting, saving. Lists are made up (seed 7) and no server is connected to, since
that costs the same each time. The goal is a hundredth in CPU, of the worker and of the database,
and in bytes of the write-ahead log.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from catalog import definition  # noqa: E402
from search_speed import Words  # noqa: E402

from benchmarks.fleet_operations import Cost, Meter  # noqa: E402
from discovery_engine.config.files.location import catalog_key_of  # noqa: E402
from discovery_engine.config.loading.loader import load_settings  # noqa: E402
from discovery_engine.config.settings import ServerSettings  # noqa: E402
from discovery_engine.events import EventBus  # noqa: E402
from discovery_engine.fleet.refresh_job import RefreshJob, RefreshTarget  # noqa: E402
from discovery_engine.registry.backends import open_database  # noqa: E402
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.runtime.catalog_state import CatalogState  # noqa: E402
from discovery_engine.runtime.ingestion.listing_result import ListingResult  # noqa: E402
from discovery_engine.upstream.connection import connection_fingerprint  # noqa: E402
from discovery_engine.upstream.listing import Listing  # noqa: E402
from tests.postgres import open_server  # noqa: E402

SLOTS = 8
DAY = 86_400.0


class Worker:
    def __init__(self, store: PostgresRegistry, state: CatalogState, tools: int) -> None:
        self._store = store
        self._state = state
        self._scope = catalog_key_of(state.view.settings)
        words = Words(seed=7)
        self._lists = {
            server.name: tuple(definition(words, number) for number in range(tools))
            for server in state.view.settings.servers
        }

    async def list_all(self) -> None:
        self._store.hasten_refreshes(self._scope)
        while jobs := self._store.claim_refreshes(self._scope, "w", limit=SLOTS, lease=DAY):
            for job in jobs:
                await self._list(job)

    async def _list(self, job: RefreshJob) -> None:
        server: ServerSettings = self._state.view.settings.by_name[job.server]
        definitions = self._lists[job.server]
        listing = Listing(definitions, (), connection=connection_fingerprint(server))
        result = ListingResult(server, listing, time.time())
        assert await self._state.apply_claimed(result, job.claim) in ("saved", "unchanged")
        tools = len(definitions)
        assert self._store.finish_refresh(job.claim, tool_count=tools, due_in=DAY)


def main() -> None:
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        url = server.create_database()
        config = Path(folder) / "discovery.yaml"
        entries = {f"server{n:05}": {"url": f"http://h/{n}/mcp"} for n in range(asked.servers)}
        registry = {"url": "${DATABASE_URL}"}
        config.write_text(json.dumps({"name": "f", "registry": registry, "servers": entries}))
        with closing(open_database(url, timeout=DAY)) as store:
            first, *again = anyio.run(_costs, config, url, store, Meter(server), asked)
    print(f"{asked.servers:,} servers with {asked.tools} tools each; of one server:")
    print("| | worker CPU ms | database CPU ms | log bytes | CPU beside the first | bytes |")
    print("|---|--:|--:|--:|--:|--:|")
    for cost in (first, *again):
        cpu = (cost.client + cost.database) / (first.client + first.database)
        print(f"| {cost.what} | {cost.client:.2f} | {cost.database:.2f} | {cost.log:,.0f} |"
              f" {cpu:.1%} | {cost.log / first.log:.1%} |")  # fmt: skip


async def _costs(
    config: Path, url: str, store: PostgresRegistry, meter: Meter, asked: argparse.Namespace
) -> list[Cost]:
    settings = load_settings(config, environ={"DATABASE_URL": url})
    state = CatalogState(store, EventBus(), claimed_only=True)
    await state.restore(settings)
    targets = [RefreshTarget(server.name) for server in settings.servers]
    store.plan_refreshes(catalog_key_of(settings), targets)
    worker = Worker(store, state, asked.tools)

    def rounds() -> Iterator[Cost]:
        for what in ("first time", "unchanged"):
            yield meter.measure(what, asked.servers, lambda: anyio.from_thread.run(worker.list_all))

    return await anyio.to_thread.run_sync(lambda: list(rounds()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", type=int, default=10_000)
    parser.add_argument("--tools", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
