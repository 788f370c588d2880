"""How soon an owner's change is in force on ten gateways.

    .venv/bin/python benchmarks/fleet_gateways.py [--gateways 10] [--changes 30] [--seed 7]

Ten engines in one process, each with a folder of its own and its background tasks, all on one real
PostgreSQL. A server is switched off and on at one of them by chance; the time runs from the start
of that command, of which the plan and the end of the session are a part, until the view of the last
gateway has it; apart from it, from the end of the command. That they share a process and its cores
makes them slower than on their own machines. The goal is one second.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.engine import Engine, open_engine  # noqa: E402
from discovery_engine.tools.model import ServerName  # noqa: E402
from tests.engines import entry  # noqa: E402
from tests.factories import make_definition  # noqa: E402
from tests.postgres import open_server  # noqa: E402
from tests.told import Told  # noqa: E402

SERVER = ServerName("told")
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
        found: dict[str, list[float]] = {"from its start": [], "from its end": []}
        for number in range(asked.changes):
            whole, after = await _switched(gateways, random, number)
            found["from its start"].append(whole)
            found["from its end"].append(after)
    return found


async def _switched(gateways: list[Engine], random: Random, number: int) -> tuple[float, float]:
    owner, is_wanted = random.choice(gateways), bool(number % 2)
    began = time.perf_counter()
    switch = owner.servers.enable if is_wanted else owner.servers.disable
    await switch(SERVER, to="registry")
    ended = time.perf_counter()
    await _seen(gateways, lambda one: (SERVER in one.view.connectable) is is_wanted)
    return time.perf_counter() - began, time.perf_counter() - ended


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
