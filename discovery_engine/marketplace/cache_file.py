"""One SQLite file that is a cache: damaged, or of another format, it is deleted and begun anew."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from discovery_engine._util.sqlite_file import (
    SUFFIXES,
    file_identity,
    is_damage_or_bad_text,
    transaction,
)
from discovery_engine.errors import RegistryError

T = TypeVar("T")

_PATIENCE = 10.0  # seconds to wait for other processes
_PRIVATE = 0o600


class CacheFile:
    """Calls may come from any thread, and wait for each other; it is opened at the first.

    Args:
        path: Where it is.
        schema: Statements that make the tables.
        version: Of the schema.

    Raises:
        RegistryError: From `read` and `write`, for errors of SQLite or the disk.
    """

    def __init__(self, path: Path, *, schema: str, version: int) -> None:
        self.path = path.absolute()
        self._schema = schema
        self._version = version
        self._alone = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds; all of it is of one moment. It may be run twice."""
        return self._run(work, "BEGIN")

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Keep all that `work` does, or nothing. It may be run twice."""
        return self._run(work, "BEGIN IMMEDIATE")

    def close(self) -> None:
        with self._alone:
            if self._connection:
                self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._alone, _cache_errors(self.path):
            try:
                return transaction(self._opened(), work, begin=begin)
            except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
                if not _is_damage(error):
                    raise
                self._delete()
                return transaction(self._opened(), work, begin=begin)

    def _opened(self) -> sqlite3.Connection:
        if self._connection and file_identity(self.path) == self._identity:
            return self._connection
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
        if os.name == "posix" and self.path.stat().st_mode & 0o077:
            self._delete()  # others could have written what is loaded from it
            return self._opened()
        connection = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            # A cache: what a crash of the system damages is read again.
            connection.execute("PRAGMA synchronous = OFF")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, file_identity(self.path)
        return connection

    def _delete(self) -> None:
        self.close()
        for suffix in SUFFIXES:
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").unlink()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in self._schema.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self._version}")
        connection.execute("COMMIT")
        if version not in (0, self._version):
            raise _OtherFormatError


class _OtherFormatError(sqlite3.DatabaseError):
    """The file was written by another version of the program."""


def _is_damage(error: Exception) -> bool:
    is_other = isinstance(error, (_OtherFormatError, msgspec.DecodeError))
    return is_other or is_damage_or_bad_text(error)


@contextmanager
def _cache_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, msgspec.DecodeError) as error:
        raise RegistryError(
            f"the cache {str(path)!r} cannot be used: {error}",
            hint="free space, or delete that file, which is only a copy",
        ) from error
