"""A process that would lead, and appends its number to a file whenever it does.

    python leader.py FOLDER

It leads among the processes that share the folder, and waits for no lease to grow old: it takes
over from those alone that released their lease, or have ended.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio

from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.runtime.leader_lock import LeaderLock
from discovery_engine.runtime.leadership import Leadership, LeaseTimes, Term

NAME = "http"
TIMES = LeaseTimes(patience=1e9)


async def main(folder: Path) -> None:
    with closing(open_sqlite(folder / "registry.db")) as store:
        leadership = Leadership(store, NAME, lock=LeaderLock(folder, NAME), times=TIMES)
        await leadership.lead(partial(work, folder / "leaders"))


async def work(log: Path, term: Term) -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()}\n")
    await term.lost.wait()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
