"""Access to the program's SQLite files: the registry, the call log, and caches."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

C = TypeVar("C", bound=sqlite3.Connection)
T = TypeVar("T")

SUFFIXES = ("-wal", "-shm", "-journal", "")
"""The suffixes of the files of one database; the empty one is the database itself.

It comes last: if a process created a new database first, SQLite would roll the old journal back
into it.
"""
_PRIVATE = 0o600
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class OtherVersionError(sqlite3.DatabaseError):
    """The file has the tables of another version of the program."""


class SqliteFile(Generic[C]):
    """A SQLite file that only its owner can read; usable from any thread, one call at a time.

    It is opened at the first call, and reopened if another file has taken its place.

    Args:
        path: The path of the file.
        prepare: Called with each new connection before its first use.
        factory: The class of connections.
        is_cache: Whether a file that is damaged, of another version, or open to other users is
            deleted and created again.
        aside: The path that a damaged file is moved to before a new one is created.
        timeout: Seconds to wait for locks of other processes.

    Raises:
        sqlite3.Error, OSError, msgspec.DecodeError: From `read` and `write`.
    """

    def __init__(
        self,
        path: Path,
        prepare: Callable[[C], None],
        *,
        factory: type[C] = sqlite3.Connection,  # type: ignore[assignment] # the usual one
        is_cache: bool = False,
        aside: Path | None = None,
        timeout: float = 10.0,
    ) -> None:
        self.path = path.absolute()
        self.was_damaged = False
        """True once a damaged file was moved aside; the code that reports it resets it."""
        self._aside = aside
        self._prepare = prepare
        self._is_cache = is_cache
        self._timeout = timeout
        self._alone = threading.RLock()
        self._factory = factory
        self._connection: C | None = None
        self._identity: tuple[int, int] | None = None

    def read(self, work: Callable[[C], T]) -> T:
        """Return the result of `work` in a read transaction; `work` may be run twice."""
        return self._run(lambda: self._transaction("BEGIN", work))

    def write(self, work: Callable[[C], T]) -> T:
        """Return the result of `work` in a write transaction; `work` may be run twice."""
        return self._run(lambda: self._transaction("BEGIN IMMEDIATE", work))

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def close(self) -> None:
        with self._alone:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _run(self, step: Callable[[], T]) -> T:
        with self._alone:
            try:
                return step()
            except (sqlite3.Error, UnicodeDecodeError, msgspec.DecodeError) as error:
                if not self._recover(error):
                    raise
                return step()

    def _transaction(self, begin: str, work: Callable[[C], T]) -> T:
        return transaction(self.connection(), work, begin=begin)

    def connection(self) -> C:
        """Return a connection, outside of a transaction, to the file that exists now."""
        if self._connection and self._is_there():
            return self._connection
        self._disconnect()
        self._connection = self._connected()
        return self._connection

    def _is_there(self) -> bool:
        """Return whether the open file is still at its path."""
        return file_identity(self.path) == self._identity

    def _connected(self) -> C:
        with suppress(FileExistsError):
            create_private(self.path)
        if self._is_cache and os.name == "posix" and self.path.stat().st_mode & 0o077:
            self._delete()
            return self._connected()
        self._identity = file_identity(self.path)
        return self._prepared(self._timeout)

    def _prepared(self, timeout: float) -> C:
        connection = sqlite3.connect(
            self.path,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=self._factory,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _recover(self, error: Exception) -> bool:
        """Remove a damaged file; return whether the call can be tried again."""
        if self._is_cache and _is_unusable(error):
            self._delete()
        elif self._aside and is_damage_or_bad_text(error):
            self._set_aside(self._aside)
        else:
            return False
        return True

    def _delete(self) -> None:
        self._disconnect()
        for suffix in SUFFIXES:
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _set_aside(self, aside: Path) -> None:
        self._disconnect()
        move_database(self.path, aside)
        self.was_damaged = True


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, and its folder.

    Raises:
        FileExistsError: If the file exists. It is not opened then: closing a file that this process
            has open elsewhere would release SQLite's locks on it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))


def move_database(path: Path, target: Path) -> None:
    """Move a database with its journal files, replacing the ones at `target`."""
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{target}{suffix}")


def make_tables(connection: sqlite3.Connection, schema: str, version: int) -> None:
    """Create the tables of an empty database; no-op if they exist.

    Raises:
        OtherVersionError: If the database has tables of another version.
    """

    def make(db: sqlite3.Connection) -> None:
        [present] = db.execute("PRAGMA user_version").fetchone()
        if present not in (0, version):
            raise OtherVersionError(f"its tables are of version {present}, not {version}")
        if present == 0:
            for statement in schema.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version}")

    transaction(connection, make)


def _is_unusable(error: Exception) -> bool:
    is_foreign = isinstance(error, (OtherVersionError, msgspec.DecodeError))
    return is_foreign or is_damage_or_bad_text(error)


def transaction(
    connection: C,
    work: Callable[[C], T],
    *,
    begin: str = "BEGIN IMMEDIATE",
    run: Callable[[Callable[[], object]], object] = lambda step: step(),
) -> T:
    """Return the result of `work`, run in a transaction that any exception rolls back.

    `run` calls each step that may find the database locked: the begin and the commit.
    """
    run(partial(connection.execute, begin))
    try:
        result = work(connection)
        run(partial(connection.execute, "COMMIT"))
    except BaseException:
        with suppress(sqlite3.Error, UnicodeDecodeError):  # the first error is the one to report
            connection.rollback()
        raise
    return result


def is_damage(error: Exception) -> bool:
    """Return whether SQLite reports its file as damaged."""
    code = _code(error)
    return code is not None and code & 0xFF in _DAMAGE


def is_damage_or_bad_text(error: Exception) -> bool:
    """Return whether a file is damaged, or contains text that is not UTF-8.

    Python's own error for such text has no SQLite code. A damaged schema raises
    `UnicodeDecodeError` if SQLite's message quotes bytes that are not UTF-8.
    """
    is_bad_text = _code(error) is None and isinstance(error, sqlite3.OperationalError)
    return is_damage(error) or is_bad_text or isinstance(error, UnicodeDecodeError)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at a path; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _code(error: Exception) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code
