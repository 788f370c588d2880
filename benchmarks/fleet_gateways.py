"""How soon a change is in force on ten gateways.

    .venv/bin/python benchmarks/fleet_gateways.py [--gateways 10] [--changes 30] [--seed 7]

Ten engines and a worker in one process, each with a folder of its own and the gateways with their
background tasks, all on one real PostgreSQL. Of each kind there are so many changes, by one gateway
that is chosen by chance, or by the worker:

switch      a server is switched off, or on
listing     the worker lists a new tool, and another with a changed meaning, which is held back
review      the changed tool is accepted

The time runs from the start of the command or from the claim of the worker, of which the plan or
the listing are a part, until the view of the last gateway has it; apart from it, from the end of
the command, or the report of the worker. That all share a process and its cores makes them slower
than on their own machines. The goal is one second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.engine import Engine, open_engine  # noqa: E402
from discovery_engine.engine.refresh_worker import WorkerOptions, WorkerReport  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.tools.model import ServerName  # noqa: E402
from tests.engines import entry  # noqa: E402
from tests.factories import make_definition  # noqa: E402
from tests.postgres import open_server  # noqa: E402
from tests.told import Told  # noqa: E402

SERVER, SCOPE = ServerName("told"), "name:fleet"
_POLL = 0.002  # seconds

Times: TypeAlias = tuple[float, float]
"""Seconds from the start of a change, and from its end, until it is in force on all gateways."""


def main() -> None:
    asked = _arguments()
    print(f"seed {asked.seed}: {asked.gateways} gateways in one process, {asked.changes} changes")
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        found = anyio.run(_measured, Path(folder), server.create_database(), asked)
    for what, times in found.items():
        for since, seconds in zip(("start", "end"), zip(*times, strict=True), strict=True):
            last = statistics.quantiles(seconds, n=100, method="inclusive")[98]
            print(f"{what}, from its {since}: in force on all after"
                  f" {statistics.median(seconds) * 1000:.0f} ms (p50), {last * 1000:.0f} ms (p99),"
                  f" {max(seconds) * 1000:.0f} ms at most")  # fmt: skip


async def _measured(folder: Path, url: str, asked: argparse.Namespace) -> dict[str, list[Times]]:
    random, found = Random(asked.seed), defaultdict[str, list[Times]](list)
    async with AsyncExitStack() as stack:
        fleet = await _opened(folder, url, asked.gateways, stack)
        await fleet.seen(lambda one: _text(one, "ping") == "Answer at once.")
        for number in range(asked.changes):
            owner = random.choice(fleet.gateways)
            found["switch"].append(await fleet.switch(owner, is_wanted=bool(number % 2)))
        for number in range(asked.changes):
            found["listing"].append(await fleet.list(number))
            found["review"].append(await fleet.accept(random.choice(fleet.gateways), number))
    return found


class Fleet(NamedTuple):
    gateways: list[Engine]
    worker: Engine
    told: Told
    registry: PostgresRegistry

    async def switch(self, owner: Engine, *, is_wanted: bool) -> Times:
        async def switch() -> float:
            change = owner.servers.enable if is_wanted else owner.servers.disable
            await change(SERVER, to="registry")
            return time.perf_counter()

        return await self._timed(switch, lambda one: (SERVER in one.view.connectable) is is_wanted)

    async def list(self, number: int) -> Times:
        new = make_definition(f"pong_{number}", "Answer later.")
        self.told.says(make_definition("ping", f"Answer {number} times."), new)
        self.registry.hasten_refreshes(SCOPE)
        reported: list[float] = []

        def note(report: WorkerReport) -> None:
            if report.outcome == "changed":
                reported.append(time.perf_counter())

        async def work() -> float:
            await self.worker.work(WorkerOptions(is_once=True), note)
            return reported[0]

        return await self._timed(
            work, lambda one: bool(_text(one, f"pong_{number}")) and not _text(one, "ping")
        )

    async def accept(self, owner: Engine, number: int) -> Times:
        async def accept() -> float:
            await owner.review.accept(await owner.review.changes(only_listed=True))
            return time.perf_counter()

        return await self._timed(
            accept, lambda one: _text(one, "ping") == f"Answer {number} times."
        )

    async def seen(self, holds: Callable[[Engine], bool]) -> float:
        with anyio.fail_after(120):
            while not all(map(holds, self.gateways)):  # noqa: ASYNC110 - what is measured is when
                await anyio.sleep(_POLL)
        return time.perf_counter()

    async def _timed(
        self, change: Callable[[], Awaitable[float]], holds: Callable[[Engine], bool]
    ) -> Times:
        """The seconds from the start and from the end, which `change` returns."""
        began = time.perf_counter()
        seen: list[float] = []

        async def look() -> None:
            seen.append(await self.seen(holds))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            ended = await change()
        return seen[0] - began, seen[0] - ended


async def _opened(folder: Path, url: str, gateways: int, stack: AsyncExitStack) -> Fleet:
    told = Told.beside(folder, make_definition("ping", "Answer at once."))
    servers = {SERVER: entry(told.server())}
    content = {"name": "fleet", "registry": {"url": "${DATABASE_URL}"}, "servers": servers}
    (folder / "discovery.yaml").write_text(json.dumps(content), "utf-8")
    return Fleet(
        [
            await stack.enter_async_context(_gateway(folder, url, number))
            for number in range(gateways)
        ],
        await stack.enter_async_context(_engine(folder, url, "worker", worker=True)),
        told,
        stack.enter_context(closing(open_database(url))),
    )


def _text(gateway: Engine, name: str) -> str:
    """The description of a tool that is visible; empty if it is not."""
    visible = gateway.view.catalog.visible
    return next((one.tool.description for one in visible if one.tool.name == name), "")


@asynccontextmanager
async def _gateway(folder: Path, url: str, number: int) -> AsyncIterator[Engine]:
    async with (
        _engine(folder, url, f"gateway{number}") as engine,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(engine.run_maintenance)
        yield engine
        tasks.cancel_scope.cancel()


def _engine(
    folder: Path, url: str, name: str, *, worker: bool = False
) -> AbstractAsyncContextManager[Engine]:
    config, environ = folder / "discovery.yaml", {"DATABASE_URL": url}
    return open_engine(config, data_dir=folder / name, environ=environ, worker=worker)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gateways", type=int, default=10)
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
