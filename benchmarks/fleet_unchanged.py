"""What listing servers of which nothing has changed costs, beside the first time and a lower bound.

    .venv/bin/python benchmarks/fleet_unchanged.py [--servers 10000] [--tools 20]

A worker's steps with a real PostgreSQL, from a claim to its result: reading the list, looking for
what means harm, accepting, saving. Lists are made up (seed 7), no server is connected to, and the
parsing of its answer is left out, since that costs the same each time. The goal is a hundredth in
CPU, of the worker and of the database, and in bytes of the write-ahead log.

The lower bound is what no worker can do without: one request over HTTP, on an open connection,
whose answer is parsed; and one `UPDATE` for each server, prepared, that sets when it is due again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import psycopg
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from catalog import definition  # noqa: E402
from search_speed import Words  # noqa: E402

from benchmarks.fleet_operations import Cost, Meter  # noqa: E402
from discovery_engine._util.json import parse_json  # noqa: E402
from discovery_engine.config.files.location import catalog_key_of  # noqa: E402
from discovery_engine.config.loading.loader import load_settings  # noqa: E402
from discovery_engine.config.settings import ServerSettings  # noqa: E402
from discovery_engine.engine.catalog_state import CatalogState  # noqa: E402
from discovery_engine.engine.ingestion.server_parts import ListingResult  # noqa: E402
from discovery_engine.events import EventBus  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.store.refresh_job import RefreshJob, RefreshTarget  # noqa: E402
from discovery_engine.upstream.connection import connection_fingerprint  # noqa: E402
from discovery_engine.upstream.listing import Listing  # noqa: E402
from tests.postgres import open_server  # noqa: E402

ROUNDS = {
    "first time, 8 at once": 8,
    "unchanged for the first time, 8 at once": 8,
    "unchanged, 8 at once": 8,
    "unchanged, 64 at once": 64,
    "unchanged, one at a time": 1,
}
"""How many results are ready at the same time; what was unchanged once is known by its digest."""
DAY = 86_400.0


class Worker:
    def __init__(self, store: PostgresRegistry, state: CatalogState, lists: dict[str, str]) -> None:
        self._store = store
        self._state = state
        self._scope = catalog_key_of(state.view.settings)
        self._lists = lists
        self.parsing = 0.0
        """Seconds of CPU in which answers were parsed, which a request has anyway."""

    async def list_all(self, slots: int) -> None:
        """List all that is due, as many at once as there are slots."""
        while jobs := self._store.claim_refreshes(self._scope, "w", limit=slots, lease=DAY):
            async with anyio.create_task_group() as tasks:
                for job in jobs:
                    tasks.start_soon(self._list, job)

    async def _list(self, job: RefreshJob) -> None:
        server: ServerSettings = self._state.view.settings.by_name[job.server]
        began = time.thread_time()
        definitions = tuple(parse_json(self._lists[job.server])["tools"])
        self.parsing += time.thread_time() - began
        listing = Listing(definitions, (), connection=job.connection)
        result = ListingResult(server, listing, time.time())
        outcome = await self._state.apply_claimed(result, job.claim, due_in=DAY)
        assert outcome in ("saved", "unchanged")


def main() -> None:
    asked = _arguments()
    words = Words(seed=7)
    names = [f"server{number:05}" for number in range(asked.servers)]
    lists = {
        name: json.dumps({"tools": [definition(words, number) for number in range(asked.tools)]})
        for name in names
    }
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        url = server.create_database()
        config = Path(folder) / "discovery.yaml"
        entries = {name: {"url": f"http://h/{name}/mcp"} for name in names}
        registry = {"url": "${DATABASE_URL}"}
        config.write_text(json.dumps({"name": "f", "registry": registry, "servers": entries}))
        with closing(open_database(url, timeout=DAY)) as store:
            costs = anyio.run(_costs, config, url, store, Meter(server), lists)
        update = _update_cost(url, Meter(server), len(lists))
        request = _request_cost(Meter(server), lists)
    _print(costs, update, request, asked)


async def _costs(
    config: Path, url: str, store: PostgresRegistry, meter: Meter, lists: dict[str, str]
) -> list[Cost]:
    settings = load_settings(config, environ={"DATABASE_URL": url})
    state = CatalogState(store, EventBus(), claimed_only=True)
    await state.restore(settings)
    scope = catalog_key_of(settings)
    targets = [RefreshTarget(one.name, connection_fingerprint(one)) for one in settings.servers]
    store.plan_refreshes(scope, targets)
    worker = Worker(store, state, lists)

    def rounds() -> Iterator[Cost]:
        for what, slots in ROUNDS.items():
            store.hasten_refreshes(scope)
            # As autovacuum does within a minute: of a table without statistics a claim sorts all.
            cleaner.execute("VACUUM ANALYZE")
            worker.parsing = 0.0
            work = partial(anyio.from_thread.run, worker.list_all, slots)
            cost = meter.measure(what, len(lists), work)
            yield replace(cost, client=cost.client - worker.parsing * 1000 / len(lists))

    # Open all the time: the CPU of a process that ends would be missing.
    with psycopg.connect(url, autocommit=True) as cleaner:
        return await anyio.to_thread.run_sync(lambda: list(rounds()))


def _update_cost(url: str, meter: Meter, count: int) -> Cost:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as database:
        keys = database.execute("SELECT key FROM discovery.refresh_jobs").fetchall()
        query = """
            UPDATE discovery.refresh_jobs SET due_at = due_at + 1, claimable_at = claimable_at + 1
            WHERE key = %s
            """

        def update() -> None:
            for key in keys:
                database.execute(query, key)

        return meter.measure("lower bound: an update", count, update)


def _request_cost(meter: Meter, lists: dict[str, str]) -> Cost:
    with _serving(next(iter(lists.values())).encode()) as url, httpx2.Client() as client:

        def request() -> None:
            for _ in lists:
                parse_json(client.post(url, content=b"{}").text)

        client.post(url, content=b"{}")
        return meter.measure("lower bound: a request over HTTP", len(lists), request)


def _print(costs: list[Cost], update: Cost, request: Cost, asked: argparse.Namespace) -> None:
    first = costs[0]
    print(f"{asked.servers:,} servers with {asked.tools} tools each; of one server:")
    print("| | worker CPU ms | database CPU ms | log bytes | CPU beside the first | bytes |")
    print("|---|--:|--:|--:|--:|--:|")
    for cost in (*costs, update):
        print(f"| {cost.what} | {cost.client:.2f} | {cost.database:.2f} | {cost.log:,.0f} |"
              f" {_cpu(cost) / _cpu(first):.1%} | {cost.log / first.log:.1%} |")  # fmt: skip
    print(f"| {request.what} | {request.client:.2f} | | | {request.client / _cpu(first):.1%} | |")
    print("\nWith the request over HTTP:")
    print("| | CPU ms | beside the first | times the bound | bytes: times the bound |")
    print("|---|--:|--:|--:|--:|")
    bound = _cpu(update) + request.client
    for cost in costs:
        whole = _cpu(cost) + request.client
        beside = whole / (_cpu(first) + request.client)
        print(f"| {cost.what} | {whole:.2f} | {beside:.1%} | {whole / bound:.1f} |"
              f" {cost.log / update.log:.1f} |")  # fmt: skip


def _cpu(cost: Cost) -> float:
    return cost.client + cost.database


@contextmanager
def _serving(answer: bytes) -> Iterator[str]:
    """A server in a process of its own, which does nothing but give one answer."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(answer, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/mcp"
    finally:
        process.terminate()
        process.join()


def _serve(answer: bytes, pipe: Pipe) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}"

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n{}"):
                writer.write(head.encode() + b"\r\n\r\n" + answer)

    async def serve() -> None:
        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", type=int, default=10_000)
    parser.add_argument("--tools", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
