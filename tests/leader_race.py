"""Many processes that start at once and would all lead: how many of them do.

    race(folder, 50)        1

Each opens the registry by itself, which the first of them makes, and asks for the lease as soon as
all are ready. They are forks, for 25,000 starts of Python would take hours.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from discovery_engine.errors import RegistryError
from discovery_engine.registry.sqlite.busy_handler import BusyHandler
from discovery_engine.registry.sqlite.registry import open_sqlite

_LEADS, _FOLLOWS, _FAILED = b"1", b"0", b"!"
_PATIENCE = 120.0  # seconds; a busy machine may take long to let all of them have the file in turn


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
