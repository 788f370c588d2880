"""A fleet that everything happens to, for as long as wanted: what `tests/fleet` does in short.

    .venv/bin/python benchmarks/fleet_chaos.py --minutes 60 --workers 8 --servers 500 --seed 7

Ends with 1 if a server was lost or left behind, a lease broken, something written by a worker that
another one had replaced, or if a server that could be claimed waited for longer than a lease, the
time without a database not counted. The seed is that of the driver's choices; how they meet the
work of the workers is different each time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fleet.chaos import Chaos  # noqa: E402
from tests.fleet.judgement import Judgement, judge, quantiles  # noqa: E402
from tests.fleet.worlds import open_world  # noqa: E402


def main() -> int:
    asked = _arguments()
    print(f"seed {asked.seed}: {asked.workers} workers, {asked.servers} servers,"
          f" a lease of {asked.lease:g} s, {asked.minutes:g} minutes", flush=True)  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="fleet-chaos-") as folder,
        open_world(Path(folder), servers=asked.servers, lease=asked.lease) as world,
    ):
        chaos = Chaos(world, workers=asked.workers, seed=asked.seed)
        end = time.monotonic() + asked.minutes * 60
        while time.monotonic() < end:
            chaos.act()
        chaos.calm()
        codes = chaos.stop()
        found = judge(world, chaos)
    for what, count in sorted(chaos.done.items()):
        print(f"{count:6} {what}")
    late = sum(wait > asked.lease for wait in found.waits)
    _print(found, late)
    return 1 if found.wrong or late or any(codes) else 0


def _print(found: Judgement, late: int) -> None:
    middle, most, longest = quantiles(found.waits)
    print(f"{found.claims:6} claims, of which {found.taken_over} ended with another worker's")
    print(f"from claimable to claimed: {middle:.2f} s in the middle, {most:.2f} s for 99 %, "
          f"{longest:.2f} s at most; {late} of {len(found.waits)} longer than a lease")  # fmt: skip
    print(f"capacity: {found.capacity:.1f} servers a second")
    print("load of the machine: " + ", ".join(f"{one:.1f}" for one in os.getloadavg()))
    print(f"{len(found.wrong)} wrong", *found.wrong, sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--lease", type=float, default=15.0, help="in seconds")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
