"""Fifty processes that start at once and would all lead, again and again: one leads each time.

    python benchmarks/leader_race.py [--runs 500] [--processes 50]

And how long it takes until another gateway serves HTTP after the one that did was killed, or was
stopped: `--kills 5` of real gateways.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.leader_race import race
from tests.shared_gateways import Gateways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()

    leaders: Counter[int] = Counter()
    started = time.monotonic()
    for _ in range(asked.runs):
        with tempfile.TemporaryDirectory() as folder:
            leaders[race(Path(folder), asked.processes)] += 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"runs with {asked.processes} processes   {asked.runs:>6}")
    for count, runs in sorted(leaders.items()):
        print(f"  with {count} leading         {runs:>6}")
    print(f"seconds                  {time.monotonic() - started:>6.0f}")
    if asked.runs:
        cpu = (used.ru_utime + used.ru_stime) / asked.runs / asked.processes
        print(f"CPU of a process, ms     {cpu * 1e3:>6.1f}")

    for name, sent in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        taken = [takeover(sent) for _ in range(asked.kills)]
        if taken:
            shown = f"median {statistics.median(taken):.1f} s, longest {max(taken):.1f} s"
            print(f"takeover after it was {name:<8} {shown}")
    sys.exit(0 if set(leaders) <= {1} else 1)


def takeover(sent: signal.Signals) -> float:
    """Seconds from the signal until another process holds the lease."""
    with tempfile.TemporaryDirectory() as folder, Gateways(Path(folder)) as gateways:
        for _ in range(3):
            gateways.start()
        leader = gateways.leader()
        os.kill(leader, sent)
        started = time.monotonic()
        gateways.leader(other_than=leader)
        return time.monotonic() - started


if __name__ == "__main__":
    main()
