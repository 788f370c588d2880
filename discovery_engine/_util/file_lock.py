"""A lock among processes: one file, locked while its descriptor is open."""

from __future__ import annotations

import os
from collections.abc import Callable

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
