"""What a fleet would do that is too large to be run here: real steps of jobs, and a virtual clock.

    .venv/bin/python benchmarks/fleet_simulation.py     # up to 100,000 servers and 200 workers
    .venv/bin/python benchmarks/fleet_simulation.py --servers 1000 --workers 2 --days 10

First it measures what each operation costs the database (`fleet_operations.py`), then it counts the
operations of a simulated fleet (`fleet_model.py`), and prints how fresh the catalog is, what the
database has to do, and what is short first. The same seed gives the same counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fleet_model import (  # noqa: E402
    DAY,
    HOUR,
    MINUTE,
    Distribution,
    Fleet,
    Seen,
    Simulation,
    Turns,
)
from benchmarks.fleet_operations import BATCH, TOOLS, Cost, measure  # noqa: E402
from discovery_engine.store import schedule  # noqa: E402
from tests.postgres import open_server  # noqa: E402

OPERATIONS = {
    "first listings": (
        f"claim, {BATCH} at once", f"accept {TOOLS} new tools", f"save {TOOLS} tools",
    ),
    "unchanged listings": (f"claim, {BATCH} at once", "save, unchanged"),
    "changed listings": (f"claim, {BATCH} at once", "save, one tool changed"),
    "failures": (f"claim, {BATCH} at once", "fail"),
}  # fmt: skip
"""What the database does for each end of a claim; a heartbeat is counted apart."""
SIZES = ((100, 1), (1_000, 1), (10_000, 4), (100_000, 20), (100_000, 200))


def main() -> None:
    asked = _arguments()
    with open_server() as server:
        costs = {cost.what: cost for cost in measure(server)}
    sizes = [(asked.servers, asked.workers)] if asked.servers else SIZES
    turns = Turns(
        first=_seconds(costs[f"accept {TOOLS} new tools"], costs[f"save {TOOLS} tools"]),
        changed=_seconds(costs["save, one tool changed"]),
    )
    for servers, workers in sizes:
        fleet = Fleet(servers, workers, days=asked.days, seed=asked.seed)
        began = time.process_time()
        seen = Simulation(fleet, Distribution(), turns).run()
        print(f"\n== {servers:,} servers, {servers * TOOLS:,} tools, {workers} workers of"
              f" {fleet.slots} slots, {asked.days:g} days, seed {asked.seed}"
              f" ({time.process_time() - began:.0f} s)")  # fmt: skip
        _print(fleet, seen, costs)


def _print(fleet: Fleet, seen: Seen, costs: dict[str, Cost]) -> None:
    counts = seen.counts
    answered = counts["unchanged listings"] + counts["changed listings"]
    late = sum(delay > schedule.LEASE for delay in seen.delays)
    outage = Distribution().database_length
    very_late = sum(delay > schedule.LEASE + outage for delay in seen.delays)
    share = seen.busy / (fleet.days * DAY * fleet.workers * fleet.slots)
    lines = {
        "listed for the first time: half, 99 %, all": _quantiles(seen.first, (0.5, 0.99, 1.0)),
        "from due to listed: p50, p99, p99.9, most": _quantiles(seen.delays),
        "later than one lease": f"{late:,} of {answered:,};"
        f" {very_late} of them not because the database was gone",
        "from a change to its listing: p50, p99": _quantiles(seen.discovery, (0.5, 0.99)),
        "claims; failures; given up": f"{counts['claims']:,}; {counts['failures']:,};"
        f" {counts['given up']:,}",
        "workers crashed; their servers taken over": f"{counts['crashes']:,};"
        f" {counts['taken over']:,}",
        "slots in use": f"{share:.1%}",
        "busiest minute: listings a second": f"{_busiest(seen)[0]:.0f}, on day"
        f" {_busiest(seen)[1] / 1440:.2f}; the mean is {counts['claims'] / fleet.days / DAY:.1f}",
        "database: cores, mean and busiest minute": _cores(fleet, seen, costs),
        "write-ahead log a day": _log(fleet, seen, costs),
        "connections, 4 and 1 of each worker": f"{fleet.workers * 5:,}",
    }
    for what, value in lines.items():
        print(f"   {what:45} {value}", flush=True)


def _seconds(*costs: Cost) -> float:
    """For which others wait: the CPU at both ends, as on a machine that does nothing else."""
    return sum(cost.client + cost.database for cost in costs) / 1000


def _cores(fleet: Fleet, seen: Seen, costs: dict[str, Cost]) -> str:
    """Of CPU, for what the workers have the database do."""
    load: defaultdict[int, float] = defaultdict(float)
    for kind, operations in OPERATIONS.items():
        per = sum(costs[one].database for one in operations) / 1000
        for minute, count in seen.by_minute.get(kind, {}).items():
            load[minute] += per * count
    beats = seen.counts["heartbeats"] * costs[f"heartbeat, {BATCH} at once"].database / 1000
    mean = (sum(load.values()) + beats) / (fleet.days * DAY)
    return f"{mean:.3f}, {max(load.values()) / MINUTE:.2f}"


def _log(fleet: Fleet, seen: Seen, costs: dict[str, Cost]) -> str:
    def written(kind: str) -> float:
        return seen.counts[kind] * sum(costs[one].log for one in OPERATIONS[kind])

    first = written("first listings") / 1e6
    daily = sum(written(kind) for kind in OPERATIONS if kind != "first listings")
    return f"{daily / fleet.days / 1e6:,.0f} MB, after {first:,.0f} MB of the first time"


def _busiest(seen: Seen) -> tuple[float, int]:
    """Claims a second of the busiest minute after the first two hours, and which one it was."""
    claims = seen.by_minute["claims"]
    later = {minute: count for minute, count in claims.items() if minute > 2 * HOUR / MINUTE}
    minute = max(later, key=lambda one: later[one])
    return later[minute] / MINUTE, minute


def _quantiles(values: list[float], shares: tuple[float, ...] = (0.5, 0.99, 0.999, 1.0)) -> str:
    ordered = sorted(values)
    found = [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in shares]
    return ", ".join(map(_time, found))


def _time(seconds: float) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 3 * HOUR else f"{seconds / HOUR:.1f} h"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", type=int, default=0, help="one size instead of several")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
