"""Waiting for a lock that another process holds on the SQLite file, without starvation.

SQLite's own busy handler polls ten times a second at last. A process with many writes in a row
leaves far shorter gaps, which a poll on a slow disk hardly ever meets. So a waiting process polls
often here, and a process with many writes pauses long enough for one poll.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_BUSY_TIMEOUT = 10.0  # seconds to wait for other processes
_POLL_INTERVAL = 0.005  # seconds
_WRITER_YIELD_TIME = 2 * _POLL_INTERVAL  # seconds in which a waiting process polls at least once
_WRITE_TIME = 0.25  # seconds of writes without such a pause; pauses take a 25th of the time


class BusyHandler:
    """Retries of one process at one file.

    After a timeout the next attempts do not wait until one succeeds: a lock that is held for
    minutes costs a process one timeout, however many attempts there are.

    Args:
        patience: Seconds to wait for other processes.
        clock: Seconds from any beginning.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        *,
        patience: float = _BUSY_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._begun = self._ended = clock()
        self._has_timed_out = False

    def retry(self, step: Callable[[], T], *, at_most: float | None = None) -> T:
        """Repeat `step` until the file is not locked; returns its result.

        Args:
            step: What to do; a failed attempt must change nothing.
            at_most: Seconds to wait, if that is less than `patience`.

        Raises:
            sqlite3.OperationalError, BlockingIOError: On timeout. Other errors of `step` are raised
                at once.
        """
        patience = self._patience if at_most is None else min(at_most, self._patience)
        deadline = self._clock() + (0.0 if self._has_timed_out else patience)
        while True:
            try:
                done = step()
            except (sqlite3.OperationalError, BlockingIOError) as exc:
                if not is_busy(exc):
                    raise
                if self._clock() >= deadline:
                    self._has_timed_out = True
                    raise
            else:
                self._has_timed_out = False
                return done
            self._sleep(_POLL_INTERVAL)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Enclose a write; pauses before it if there were many without a pause."""
        now = self._clock()
        if now - self._ended >= _WRITER_YIELD_TIME:
            self._begun = now
        elif now - self._begun >= _WRITE_TIME:
            self._sleep(_WRITER_YIELD_TIME)
            self._begun = self._clock()
        try:
            yield
        finally:
            self._ended = self._clock()


def is_busy(error: Exception) -> bool:
    """Return whether an error means that another process holds the lock."""
    if isinstance(error, OSError):
        return isinstance(error, BlockingIOError)
    code = getattr(error, "sqlite_errorcode", None)  # what Python itself raises has none
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


@cache
def busy_handler_at(path: Path) -> BusyHandler:  # noqa: ARG001 - the key of the cache
    """The handler of this process for one file."""
    return BusyHandler()
