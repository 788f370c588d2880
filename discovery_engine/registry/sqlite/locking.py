"""How processes that share one SQLite file take turns, so that none starves.

SQLite waits by looking again, at last only ten times a second. A process that writes one thing
after another leaves gaps far shorter than that, and on a slow disk they are hardly ever met. So a
waiting process looks often here, and one that writes much rests long enough for that to be seen.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_PATIENCE = 10.0  # seconds to wait for other processes
_LOOK = 0.005  # seconds between two looks
_REST = 2 * _LOOK  # seconds in which whoever waits looks at least once
_BEYOND = 1 << 30  # the byte of a file that is locked on Windows: none that is ever written
_SPELL = 0.25  # seconds of writing without such a rest, so that resting takes a 25th of the time


class Turns:
    """The turns of one process.

    Who waited in vain does not wait again before it got a turn: a lock that is held for minutes
    costs a process one patience, however often it comes back.

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
        self._was_in_vain = False

    def wait_for(self, step: Callable[[], T], *, at_most: float | None = None) -> T:
        """What `step` gives, as soon as the file is free for it; it must do all or nothing.

        Args:
            step: What to do.
            at_most: Seconds to wait, if that is less than the patience.

        Raises:
            sqlite3.OperationalError, BlockingIOError: If that takes too long; and whatever else
                `step` raises.
        """
        patience = self._patience if at_most is None else min(at_most, self._patience)
        deadline = self._clock() + (0.0 if self._was_in_vain else patience)
        while True:
            try:
                done = step()
            except (sqlite3.OperationalError, BlockingIOError) as exc:
                if not is_taken(exc):
                    raise
                if self._clock() >= deadline:
                    self._was_in_vain = True
                    raise
            else:
                self._was_in_vain = False
                return done
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


def is_taken(error: Exception) -> bool:
    """Whether another process has what was asked for."""
    if isinstance(error, OSError):
        return isinstance(error, BlockingIOError)
    code = getattr(error, "sqlite_errorcode", None)  # what Python itself raises has none
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


@cache
def turns_at(path: Path) -> Turns:  # noqa: ARG001 - what the turns are kept by
    """The turns of this process at one file, whoever opens it."""
    return Turns()


def _locker() -> Callable[[int], None]:
    """What `lock_file` is here."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:  # pragma: no cover - Windows
        return _lock_a_byte
    return lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_a_byte(descriptor: int) -> None:  # pragma: no cover - Windows
    import msvcrt  # noqa: PLC0415 - only on Windows

    # Such a lock keeps others from reading, so it lies beyond what is ever written.
    os.lseek(descriptor, _BEYOND, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from error


lock_file = _locker()
"""Locks a file for as long as its descriptor is open, so that a process that ends lets go of it.

Raises BlockingIOError if another process, or another opening of the file, has it.
"""
