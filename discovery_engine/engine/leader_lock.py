"""A file that is locked as long as a process leads: the system frees it when the process ends.

So others notice at once that a leader has ended, however it did. A leader that hangs keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from discovery_engine._util.digests import blake2b
from discovery_engine._util.file_lock import lock_file

_PRIVATE = 0o600

LockState: TypeAlias = Literal["held", "taken", "unusable"]
"""`held` by this process; `taken` by another; `unusable` where files cannot be locked."""


class LeaderLock:
    """The lock of one thing that can be led, in a folder that its processes share."""

    def __init__(self, folder: Path, name: str, *, lock: Callable[[int], None] = lock_file) -> None:
        """Nothing is opened yet."""
        digest = blake2b(name.encode(), digest_size=8).hexdigest()
        self._path = folder / f"leader-{digest}.lock"
        self._lock = lock
        self._descriptor: int | None = None

    @property
    def file(self) -> str:
        """Which file is locked, as long as this process has the lock.

        Another one, should somebody have removed the one that a leader has locked.
        """
        return "" if self._descriptor is None else f"{os.fstat(self._descriptor).st_ino:x}"

    def acquire(self) -> LockState:
        """Take the lock if no other process has it; who has it already keeps it."""
        if self._descriptor is not None:
            return "held"
        try:
            # Inherited by no program that this process starts: that might live on.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, _PRIVATE)
        except OSError:
            return "unusable"
        try:
            self._lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            return "taken" if isinstance(error, BlockingIOError) else "unusable"
        self._descriptor = descriptor
        return "held"

    def release(self) -> None:
        """No-op if this process does not have it."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
