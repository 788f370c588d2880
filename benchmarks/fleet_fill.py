"""How fast workers list a new fleet for the first time, with gateways open beside them.

    .venv/bin/python benchmarks/fleet_fill.py 500 1000 2000 --workers 4 --gateways 2

For each number of servers: a database and processes of their own, and servers at loopback.
Prints for each fifth of the fill servers a second, and the CPU that workers and gateways took for a
server, which says more on a busy machine. The fill is linear if it does not grow.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.store.backends import open_database  # noqa: E402
from tests import postgres  # noqa: E402
from tests.fleet.fleet import Process, open_fleet  # noqa: E402
from tests.fleet.loopback_servers import open_servers  # noqa: E402

_TICK = 0.5  # seconds
_HERTZ = os.sysconf("SC_CLK_TCK")


def main() -> None:
    arguments = _arguments()
    for servers in arguments.servers:
        with tempfile.TemporaryDirectory(prefix="fleet-fill-") as folder:
            _fill(Path(folder), servers, arguments)


def _fill(folder: Path, count: int, arguments: argparse.Namespace) -> None:
    tools = {f"tool_{number}": f"Return record {number}" for number in range(arguments.tools)}
    with (
        ExitStack() as stack,
        postgres.open_server() as database,
        open_servers([f"server{number}" for number in range(count)]) as servers,
        closing(open_database(database.create_database(), timeout=60.0)) as store,
    ):
        for server in servers.values():
            server.tools = tools
        store.newest_decision()  # makes the tables
        name = str(store.database.address.parameters["dbname"])
        with open_fleet(folder, database.url(name)) as fleet:
            fleet.configure(servers.entries())
            gateways = [fleet.start_gateway(f"gateway{n}") for n in range(arguments.gateways)]
            for gateway in gateways:
                gateway.wait_healthy()
            options = "--slots", str(arguments.slots)
            workers = [fleet.start_worker(f"worker{n}", *options) for n in range(arguments.workers)]
            admin = stack.enter_context(database.admin(name))
            query = "SELECT count(*) FROM discovery.refresh_jobs WHERE listed_at IS NOT NULL"
            marks = [_Mark(0, time.monotonic(), _cpu(workers), _cpu(gateways))]
            end = marks[0].at + arguments.limit
            print(f"{count} servers, {arguments}")
            while marks[-1].listed < count and marks[-1].at < end:
                time.sleep(_TICK)
                listed = admin.execute(query).fetchall()[0][0]
                if listed >= min(count, marks[-1].listed + count / 5) or time.monotonic() > end:
                    marks.append(_Mark(listed, time.monotonic(), _cpu(workers), _cpu(gateways)))
                    _print(marks[-2], marks[-1])
            _print(marks[0], marks[-1])


class _Mark(NamedTuple):
    listed: int
    at: float
    workers: float
    """CPU seconds, as are those of the gateways."""
    gateways: float


def _print(before: _Mark, after: _Mark) -> None:
    count, seconds = after.listed - before.listed, after.at - before.at
    if not count:
        return
    workers, gateways = (
        (cpu - earlier) / count * 1000 for earlier, cpu in zip(before[2:], after[2:], strict=True)
    )
    print(
        f"  {before.listed} to {after.listed}: {seconds:.0f} s, {count / seconds:.1f} servers/s;"
        f" CPU for a server: workers {workers:.1f} ms, gateways {gateways:.1f} ms;"
        f" load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def _cpu(processes: Iterable[Process]) -> float:
    """Return the CPU seconds of running processes, without their children."""
    stats = (Path(f"/proc/{process.pid}/stat").read_text("ascii") for process in processes)
    fields = (stat.rpartition(")")[2].split() for stat in stats)
    return sum(int(field[11]) + int(field[12]) for field in fields) / _HERTZ


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("servers", type=int, nargs="+")
    parser.add_argument("--tools", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800.0, help="in seconds, for each fill")
    return parser.parse_args()


if __name__ == "__main__":
    main()
