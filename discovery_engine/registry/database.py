"""One SQLite file: private to its owner, at the present version, changed in whole transactions.

A damaged file is set aside and a new one begun. What is kept here was learnt from upstreams and
can be learnt again, so losing it costs a refresh; refusing to start would cost more.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from discovery_engine.errors import RegistryError
from discovery_engine.registry.locking import Turns
from discovery_engine.registry.migrations import migrate

logger = logging.getLogger(__name__)

T = TypeVar("T")

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PRIVATE = 0o600
_SIDE_FILES = ("", "-wal", "-shm", "-journal")  # what SQLite keeps beside the database, and itself
# Before it, two processes that checkpoint a write-ahead log at once can damage the database.
_WAL_IS_SAFE = (3, 51, 3)


class Database:
    """An open file; calls may come from any thread and take turns.

    Raises:
        RegistryError: From the constructor and both verbs, for whatever SQLite or the disk says.
    """

    def __init__(self, path: Path, *, sqlite_version: tuple[int, ...], turns: Turns) -> None:
        self.path = path.absolute()
        self.recovered: str | None = None
        """Where a damaged file was put that stood in this one's place; None if none did."""
        self._journal = "wal" if sqlite_version >= _WAL_IS_SAFE else "delete"
        self._turns = turns
        self._alone = threading.Lock()
        with _registry_errors(self.path):
            self._connection = self._opened()

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds; all it reads is of one moment. It may be run twice."""
        return self._run(partial(self._found, work))

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Keep all that `work` does, or none; it is on the disk on return. It may be run twice."""
        return self._run(partial(self._written, work))

    def close(self) -> None:
        """Further calls raise; closing again does nothing."""
        with self._alone, _registry_errors(self.path):
            self._connection.close()

    def _run(self, transaction: Callable[[], T]) -> T:
        with self._alone, _registry_errors(self.path):
            try:
                return transaction()
            except sqlite3.Error as exc:
                if not _is_damage(exc):
                    raise
                self._connection.close()
                self._set_aside(exc)
                self._connection = self._opened()
                return transaction()

    def _found(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # To begin takes no lock. The first look does, so there is nothing to do again but it.
        return self._turns.wait_for(partial(self._transaction, "BEGIN", work))

    def _written(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turns.writing():
            return self._transaction("BEGIN IMMEDIATE", work)

    def _transaction(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection
        self._turns.wait_for(partial(connection.execute, begin))
        try:
            result = work(connection)
            self._turns.wait_for(partial(connection.execute, "COMMIT"))
        except BaseException:
            with suppress(sqlite3.Error):  # the first error is the one to tell
                connection.rollback()
            raise
        return result

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._turns.wait_for(self._connected)
        except sqlite3.Error as exc:
            if not _is_damage(exc):
                raise
            self._set_aside(exc)
            return self._turns.wait_for(self._connected)

    def _connected(self) -> sqlite3.Connection:
        self._identity = _make_private(self.path)
        connection = sqlite3.connect(
            self.path, timeout=0.0, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection)
            _set_journal(connection, self._journal)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, damage: sqlite3.Error) -> None:
        if _identity(self.path) != self._identity:
            return  # another process has done it, and begun a new file
        aside = _free_name(self.path)
        for suffix in _SIDE_FILES:
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        self.recovered = str(aside)
        logger.warning(
            "The registry %s is damaged (%s). It was set aside as %s and a new one begun; "
            "a refresh fills it again.",
            self.path,
            damage,
            aside.name,
        )


def _make_private(path: Path) -> tuple[int, int]:
    """Make the file if it is not there, close it to others; returns its identity."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Only a file that was not there may be opened: closing one that this process has open
        # elsewhere would drop SQLite's locks on it. Side files take the mode of the database.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
    except FileExistsError:
        # Even to set the mode that it has is refused where nothing can be written.
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != _PRIVATE:
            path.chmod(_PRIVATE)
    return _identity(path)


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    [present] = connection.execute("PRAGMA journal_mode").fetchone()
    if present != mode:
        # Refused while others have the file open; both modes keep what was committed.
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA journal_mode = {mode}")


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # text that is not UTF-8 is found by Python, which gives no code
        return isinstance(error, sqlite3.OperationalError)
    return code & 0xFF in _DAMAGE


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return name


@contextmanager
def _registry_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as exc:
        raise RegistryError(
            f"the registry {str(path)!r} cannot be used: {exc}",
            hint="it only remembers what servers told: remove it, or choose another data folder",
        ) from exc
