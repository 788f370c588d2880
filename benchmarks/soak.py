"""What a gateway holds after a long time of calls, crashes, floods and silence.

    python benchmarks/soak.py [--minutes 5]

Servers of every kind are called without pause, in rounds; between two of them all is quiet, and
what the process holds is counted. The first rounds fill caches and pools, and are left out. Goals:
no descriptor, task, thread or process more in the end, and memory that does not grow with the
calls (what it holds goes up and down by a hundredth).
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import logging
import os
import statistics
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faulty_servers import Clock, Row, healthy, list_all, sick  # noqa: E402
from discovery_engine.config.settings import ServerSettings, Timeouts  # noqa: E402
from discovery_engine.errors import UpstreamError  # noqa: E402
from discovery_engine.upstream.history import Policy  # noqa: E402
from tests.servers.programs import (  # noqa: E402
    TestedUpstreams,
    descendants,
    eventually,
    http_server,
    is_running,
    remote_server,
    upstreams,
)

SECONDS = 10  # of load in a round
LEFT_OUT = 3  # rounds
STAY = ("the reaper", "what serves HTTP")
MORE = {"memory": 2.0, "blocks": 3000}
TOOLS = {"obeys": "crash", "hang_call": "hang"}
KINDS = ("obeys", "hang_call", "many_objects", "garbage_flood", "request_flood", "huge", "noise")


class Holding(Struct, frozen=True):
    """What the process holds when all is quiet."""

    memory: float
    """In MiB, without what the allocator keeps for later."""
    blocks: int
    """Of memory, as Python counts them: the figure that shows a leak of ours."""
    descriptors: int
    tasks: int
    threads: int
    processes: int
    zombies: int


def holding() -> Holding:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    children = descendants()
    running = sum(map(is_running, children))
    return Holding(
        memory=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        blocks=sys.getallocatedblocks(),
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - counts, not paths
        tasks=len(anyio.get_running_tasks()),
        threads=threading.active_count(),
        processes=running,
        zombies=len(children) - running,
    )


async def soak(*, full: bool) -> AsyncIterator[Row]:
    for row in await soaked(minutes=10 if full else 2.5):
        yield row


async def soaked(*, minutes: float) -> list[Row]:
    rounds, told = LEFT_OUT + max(3, round(minutes * 60 / SECONDS)), collections.Counter[str]()
    timeouts = Timeouts(call=1)
    with http_server("many_body", program="wire_http_server.py") as url:
        servers = [
            *healthy(6),
            *(sick(kind, timeouts=timeouts) for kind in KINDS),
            remote_server(url, kind="http", timeouts=timeouts),
        ]
        async with upstreams(policy=Policy(clock=Clock())) as opened:
            await list_all(opened, servers)
            held = [await after_a_round(opened, servers, told) for _ in range(rounds)]
            restarts = sum(c.stats.restarts for c in opened.states().values())
    return rows(held[LEFT_OUT:], f"{told.total()} calls, {restarts} restarts")


async def after_a_round(
    opened: TestedUpstreams, servers: list[ServerSettings], told: collections.Counter[str]
) -> Holding:
    with anyio.move_on_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            for server in servers:
                for _ in range(3):
                    tasks.start_soon(call_on, opened, server, told)
    for server in servers:
        await opened.close(server.name)
    await eventually(
        lambda: not any(s.stats and s.stats.pid for s in opened.states().values()), within=30
    )
    await eventually(lambda: len(descendants()) <= len(STAY), within=30)
    with suppress(TimeoutError):
        await eventually(lambda: len(anyio.get_running_tasks()) == 1, within=5)
    return holding()


async def call_on(
    opened: TestedUpstreams, server: ServerSettings, told: collections.Counter[str]
) -> None:
    tool = TOOLS.get(server.name.rstrip("0123456789"), "huge")
    while True:
        with suppress(UpstreamError):
            await opened.call(server, tool, {"text": "x"})
        told[server.name] += 1
        await anyio.sleep(0.01)


def rows(held: list[Holding], what: str) -> list[Row]:
    third = len(held) // 3
    found = []
    for name in Holding.__struct_fields__:
        first, last = (
            statistics.median(getattr(holding, name) for holding in part)
            for part in (held[:third], held[-third:])
        )
        allowed = MORE.get(name, 0)
        found.append(
            Row(
                f"{name} held after {what}",
                f"<= {allowed} more",
                f"{last:.10g} ({last - first:+.3g})",
                f"{first:.10g}",
                is_met=last - first <= allowed,
            )
        )
    return found


async def run(minutes: float) -> None:
    print("| what | at first | at last | goal | met |\n|---|--:|--:|--:|---|")
    for row in await soaked(minutes=minutes):
        row.print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.5)
    options = parser.parse_args()
    logging.disable()  # what sick servers do is told at length
    anyio.run(run, options.minutes)


if __name__ == "__main__":
    main()
