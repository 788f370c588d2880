"""A lock among processes: one file, locked while its descriptor is open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_PRIVATE = 0o600
_POLL_INTERVAL = 0.005  # seconds
_BEYOND = 1 << 30  # the byte of a file that is locked on Windows: none that is ever written


def _locker() -> Callable[[int], None]:
    """The implementation for this platform."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:  # pragma: no cover - Windows
        return _lock_a_byte
    return lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_a_byte(descriptor: int) -> None:  # pragma: no cover - Windows
    import msvcrt  # noqa: PLC0415 - only on Windows

    # The lock prevents reads of the locked byte, so that byte lies beyond the content.
    os.lseek(descriptor, _BEYOND, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from error


lock_file = _locker()
"""Lock a file until its descriptor is closed; the lock of a process that ends is released.

Raises BlockingIOError if the file is locked through another descriptor.
"""


def open_locked(path: Path, *, at_most: float) -> int:
    """Open a file that is made for its lock alone, and lock it.

    Its folder is made, too. Close the descriptor to release the lock.

    Raises:
        BlockingIOError: If another process has the lock for longer than `at_most` seconds.
        OSError: If the file cannot be opened.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE)
    deadline = time.monotonic() + at_most
    try:
        while not _is_locked_now(descriptor, must_be=time.monotonic() >= deadline):
            time.sleep(_POLL_INTERVAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_locked_now(descriptor: int, *, must_be: bool) -> bool:
    try:
        lock_file(descriptor)
    except BlockingIOError:
        if must_be:
            raise
        return False
    return True
