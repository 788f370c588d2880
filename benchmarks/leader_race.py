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
from contextlib import closing
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

from discovery_engine.errors import RegistryError
from discovery_engine.store.sqlite.busy_handler import BusyHandler
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from tests.shared_gateways import Gateways

_LEADS, _FOLLOWS, _FAILED = b"1", b"0", b"!"
_PATIENCE = 120.0  # seconds; a busy machine may take long to let all of them have the file in turn


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


def race(folder: Path, count: int) -> int:
    """How many of `count` processes lead.

    Raises:
        AssertionError: If one could not ask.
    """
    start, gate = os.pipe()
    answers, answer = os.pipe()
    children = []
    for _ in range(count):
        if (child := os.fork()) == 0:
            os.close(gate)
            _run(folder / "registry.db", start, answer)
        children.append(child)
    for descriptor in (start, gate, answer):  # closing the gate lets all of them go
        os.close(descriptor)
    with os.fdopen(answers, "rb") as pipe:
        said = pipe.read()
    for child in children:
        os.waitpid(child, 0)
    assert sorted(said) == sorted(_LEADS * said.count(_LEADS) + _FOLLOWS * said.count(_FOLLOWS))
    assert len(said) == count
    return said.count(_LEADS)


def _run(path: Path, start: int, answer: int) -> NoReturn:
    """One process, which ends without any of the parent's `atexit`."""
    said = _FAILED
    try:
        os.read(start, 1)
        with closing(open_sqlite(path, busy=BusyHandler(patience=_PATIENCE))) as store:
            acquired = store.acquire_lease("http", str(os.getpid()))
            held = store.lease("http")
            if acquired is not None and acquired == held and acquired.fence == 1:
                said = _LEADS
            elif acquired is None and held is not None and held.holder != str(os.getpid()):
                said = _FOLLOWS
    except RegistryError:
        pass
    finally:
        os.write(answer, said)
        os._exit(0)


if __name__ == "__main__":
    main()
