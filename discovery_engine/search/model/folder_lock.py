"""One process at a time changes the folder of models: each deletes what is unfinished there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discovery_engine._util.file_lock import lock_file
from discovery_engine.search.model.model_error import ModelError

LOCK = ".lock"
_PRIVATE = 0o600
_TRIES = 100  # each fails only if another process deleted the file or its folder meanwhile


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Create the folder and lock it; the lock of a process that ends is released.

    Raises:
        ModelError: If another process holds the lock.
        OSError: If the folder cannot be written.
    """
    descriptor = _locked(folder / LOCK)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows deletes no open file
            (folder / LOCK).unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    for _ in range(_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the folder was removed meanwhile
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, _PRIVATE)
            if _is_locked_now(descriptor, path):
                return descriptor
            os.close(descriptor)
    raise _busy(path.parent)


def _is_locked_now(descriptor: int, path: Path) -> bool:
    """Lock the file; False if it is deleted by now, so that others lock another one."""
    try:
        lock_file(descriptor)
    except BlockingIOError as error:
        os.close(descriptor)
        raise _busy(path.parent) from error
    except OSError:  # a file system without locks: the owner runs one command at a time
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _busy(folder: Path) -> ModelError:
    return ModelError(
        f"another process installs or removes a model in {str(folder)!r}",
        hint="wait until it has ended, then repeat the command",
    )
