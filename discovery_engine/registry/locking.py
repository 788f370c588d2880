"""How processes that share one SQLite file take turns, so that none starves.

SQLite waits by looking again, at last only ten times a second. A process that writes one thing
after another leaves gaps far shorter than that, and on a slow disk they are hardly ever met. So a
waiting process looks often here, and one that writes much rests long enough for that to be seen.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_PATIENCE = 10.0  # seconds to wait for other processes
_LOOK = 0.005  # seconds between two looks
_REST = 2 * _LOOK  # seconds in which whoever waits looks at least once
_SPELL = 0.25  # seconds of writing without such a rest, so that resting takes a 25th of the time


class Turns:
    """The turns of one process.

    Args:
        patience: Seconds to wait for other processes.
        clock: Seconds from any beginning.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        *,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._begun = self._ended = clock()

    def wait_for(self, step: Callable[[], T]) -> T:
        """What `step` gives, as soon as the file is free for it; it must do all or nothing.

        Raises:
            sqlite3.OperationalError: If that takes too long, and whatever else `step` raises.
        """
        deadline = self._clock() + self._patience
        while True:
            try:
                return step()
            except sqlite3.OperationalError as exc:
                if not _is_taken(exc) or self._clock() >= deadline:
                    raise
            self._sleep(_LOOK)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A block that writes; after many without a rest, others come before it."""
        now = self._clock()
        if now - self._ended >= _REST:
            self._begun = now
        elif now - self._begun >= _SPELL:
            self._sleep(_REST)
            self._begun = self._clock()
        try:
            yield
        finally:
            self._ended = self._clock()


def _is_taken(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # what Python itself raises has none
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY
