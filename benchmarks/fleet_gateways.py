"""How soon a change is in force on ten gateways: of an owner, and of what a worker listed.

    .venv/bin/python benchmarks/fleet_gateways.py [--gateways 10] [--changes 30] [--seed 7]

Ten engines in one process, each with a folder of its own and its background tasks, all on one real
PostgreSQL. A change is made at one of them by chance, or written by a worker's claim. The time runs
until the view of the last gateway has it: from the end of the worker's write, but from the start of
the owner's command, of which the plan and the end of the server's session are a part. That they
share a process and its cores makes them slower than on their own machines. The goal is one second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import anyio.to_thread
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.engine import Engine, open_engine  # noqa: E402
from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshTarget  # noqa: E402
from discovery_engine.tools.model import ServerName  # noqa: E402
from tests.engines import entry  # noqa: E402
from tests.factories import make_definition  # noqa: E402
from tests.postgres import open_server  # noqa: E402
from tests.told import Told  # noqa: E402

SCOPE = "name:fleet"
SERVER = ServerName("told")
DAY = 86_400.0
_POLL = 0.002  # seconds


def main() -> None:
    asked = _arguments()
    print(f"seed {asked.seed}: {asked.gateways} gateways in one process, {asked.changes} changes")
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        found = anyio.run(_measured, Path(folder), server.create_database(), asked)
    for what, times in found.items():
        last = statistics.quantiles(times, n=100, method="inclusive")[98]
        print(f"{what}: in force on all after {statistics.median(times) * 1000:.0f} ms (p50),"
              f" {last * 1000:.0f} ms (p99), {max(times) * 1000:.0f} ms at most")  # fmt: skip


async def _measured(folder: Path, url: str, asked: argparse.Namespace) -> dict[str, list[float]]:
    random = Random(asked.seed)
    told = Told.beside(folder, make_definition("ping", "Answer at once."))
    servers = {SERVER: entry(told.server())}
    content = {"name": "fleet", "registry": {"url": "${DATABASE_URL}"}, "servers": servers}
    (folder / "discovery.yaml").write_text(json.dumps(content), "utf-8")
    async with AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(_gateway(folder, url, number))
            for number in range(asked.gateways)
        ]
        await _seen(gateways, lambda one: bool(list(one.view.catalog.visible)))
        found: dict[str, list[float]] = {"a switch of the owner": [], "a listing of a worker": []}
        for number in range(asked.changes):
            found["a switch of the owner"].append(await _switched(gateways, random, number))
        if asked.changes % 2:
            await gateways[0].servers.enable(SERVER, to="registry")
        claim = await anyio.to_thread.run_sync(_claimed, gateways[0])
        for number in range(asked.changes):
            found["a listing of a worker"].append(await _listed(gateways, claim, number))
    return found


async def _switched(gateways: list[Engine], random: Random, number: int) -> float:
    owner, is_wanted = random.choice(gateways), bool(number % 2)
    began = time.perf_counter()
    switch = owner.servers.enable if is_wanted else owner.servers.disable
    await switch(SERVER, to="registry")
    await _seen(gateways, lambda one: (SERVER in one.view.connectable) is is_wanted)
    return time.perf_counter() - began


async def _listed(gateways: list[Engine], claim: RefreshClaim, number: int) -> float:
    """A worker's listing with a time to live that no other listing has."""
    store = gateways[0]._core.store  # noqa: SLF001 - as a worker has it
    snapshot = await anyio.to_thread.run_sync(store.load, SCOPE)
    assert snapshot
    part = snapshot.catalog.part(SERVER)
    part = replace(part, instructions=f"version {number}", listed_at=(part.listed_at or 0) + 1)
    began = time.perf_counter()
    assert (
        await anyio.to_thread.run_sync(lambda: store.save_claimed(claim, part, revision=1))
        == "saved"
    )
    await _seen(
        gateways, lambda one: one.view.catalog.part(SERVER).instructions == f"version {number}"
    )
    return time.perf_counter() - began


def _claimed(engine: Engine) -> RefreshClaim:
    store = engine._core.store  # noqa: SLF001 - as above
    store.plan_refreshes(SCOPE, [RefreshTarget(SERVER)])
    [job] = store.claim_refreshes(SCOPE, "benchmark", limit=1, lease=DAY)
    return job.claim


async def _seen(gateways: list[Engine], holds: Callable[[Engine], bool]) -> None:
    with anyio.fail_after(120):
        while not all(map(holds, gateways)):  # noqa: ASYNC110 - what is measured is when
            await anyio.sleep(_POLL)


@asynccontextmanager
async def _gateway(folder: Path, url: str, number: int) -> AsyncIterator[Engine]:
    data = folder / f"gateway{number}"
    environ = {"DATABASE_URL": url}
    config = folder / "discovery.yaml"
    async with (
        open_engine(config, data_dir=data, environ=environ) as engine,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(engine.run_maintenance)
        yield engine
        tasks.cancel_scope.cancel()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gateways", type=int, default=10)
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
