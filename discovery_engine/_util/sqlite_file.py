"""What every SQLite file of the program needs: the registry, the call log, and caches."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SUFFIXES = ("-wal", "-shm", "-journal", "")
"""What SQLite keeps beside a file, and itself: last, or a process that opens a new one meanwhile
would roll the old one's journal back into it."""
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def transaction(
    connection: sqlite3.Connection,
    work: Callable[[sqlite3.Connection], T],
    *,
    begin: str = "BEGIN IMMEDIATE",
) -> T:
    """What `work` returns, and all that it does, or nothing."""
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # the first error is the one to report
            connection.rollback()
        raise
    return result


def is_damage(error: Exception) -> bool:
    """Whether SQLite has found its file damaged."""
    code = _code(error)
    return code is not None and code & 0xFF in _DAMAGE


def is_damage_or_bad_text(error: Exception) -> bool:
    """As `is_damage`, or Python has found text in it that is not UTF-8, which has no code."""
    return is_damage(error) or (
        _code(error) is None and isinstance(error, sqlite3.OperationalError)
    )


def file_identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at a path; None if none does."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _code(error: Exception) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code
