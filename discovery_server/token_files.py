"""Reads the files that hold tokens, and judges who else may have written or read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from discovery_engine.errors import ConfigurationError

PRIVATE = 0o600
_MAX_TOKEN_FILE_BYTES = 65_536  # bytes
# Our own file is never a link, and opening must not wait for the writer of a pipe; not on Windows.
NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | NO_WAITING


def read_file(
    path: Path, flags: int, *, most: int = _MAX_TOKEN_FILE_BYTES
) -> tuple[bytes, os.stat_result]:
    """The content and the status of a regular file.

    Raises:
        ConfigurationError: If it is something else, or too large.
        OSError: If it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | flags)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise token_problem(path, "is no regular file", "a token is read from nothing else")
        data = file.read(most + 1)
    if len(data) > most:
        message = f"is larger than {most // 1024} KiB"
        raise token_problem(path, message, "it holds tokens only")
    return data, status


def is_foreign(status: os.stat_result, path: Path) -> bool:
    """Return whether a file belongs to neither root, nor this user, nor the folder's owner."""
    if os.name != "posix":
        return False
    return status.st_uid not in (0, os.geteuid(), path.parent.stat().st_uid)


def is_writable_by_others(status: os.stat_result) -> bool:
    return os.name == "posix" and bool(status.st_mode & 0o022)


def is_readable_by_others(status: os.stat_result) -> bool:
    return os.name == "posix" and bool(status.st_mode & 0o044)


def reason_of(error: OSError) -> str:
    return error.strerror or str(error)


def token_problem(origin: object, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("SERVE_TOKEN_INVALID", origin, message, hint)
