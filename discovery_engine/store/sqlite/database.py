"""One SQLite file: private to its owner, at the present version, changed in whole transactions.

A damaged file is set aside and a new one begun. The content was listed from upstreams and
can be listed again, so losing it costs a refresh; refusing to start would cost more.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from discovery_engine._util.sqlite_file import (
    SqliteFile,
    create_private,
    file_identity,
    is_damage_or_bad_text,
    move_database,
    transaction,
)
from discovery_engine.config.files.permissions import writable_by_others
from discovery_engine.errors import RegistryError
from discovery_engine.store.sqlite import decision_checks
from discovery_engine.store.sqlite.busy_handler import BusyHandler, busy_handler_at, is_busy
from discovery_engine.store.sqlite.decision_mark import DecisionMark
from discovery_engine.store.sqlite.file_connection import FileConnection
from discovery_engine.store.sqlite.migrations import migrate
from discovery_engine.store.stored_text import key_of
from discovery_engine.store.tables.decision_table import DecisionTable

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PRIVATE = 0o600
# As private, and yet another mode: whatever was found open to others stays known as such until it
# was dealt with, even if this process is killed meanwhile.
_CLOSED_JUST_NOW = 0o700
# Before it, two processes that checkpoint a write-ahead log at once can damage the database.
_WAL_IS_SAFE = (3, 51, 3)


def sqlite_database(
    path: str | Path,
    *,
    patience: float | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    busy: BusyHandler | None = None,
    clock: Callable[[], float] = time.time,
) -> Database:
    """The file of a registry; see `store.sqlite.sqlite_registry.open_sqlite`."""
    place = Path(path).absolute()
    busy = busy or busy_handler_at(place)
    return Database(
        place,
        sqlite_version=sqlite_version,
        busy=busy,
        mark=DecisionMark(place, busy, patience=patience),
        clock=clock,
        patience=patience,
    )


class Database(SqliteFile[FileConnection]):
    """An open file; calls may come from any thread and take busy.

    A file that was removed or replaced is opened again.

    Args:
        path: Where it is.
        sqlite_version: Of the SQLite in use.
        busy: Taken at it.
        mark: Tells whether decisions in it were lost.
        patience: The most seconds to wait for other processes with opening and reading it.
        clock: Unix time in seconds.

    Raises:
        RegistryError: From the constructor and all methods, for errors of SQLite or the disk.
    """

    def __init__(
        self,
        path: Path,
        *,
        sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
        busy: BusyHandler,
        mark: DecisionMark,
        patience: float | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path, self._prepare_tables, factory=FileConnection)
        self.recovered: str | None = None
        """The path to which a damaged file in this one's place was moved; None without one."""
        self._journal = "wal" if sqlite_version >= _WAL_IS_SAFE else "delete"
        self._busy = busy
        self._mark = mark
        self._patience = patience
        self.clock = clock
        self._is_closed = False
        self._is_checked = False
        """True if every row of decisions was verified."""
        self._is_complete = False
        """True if none is missing; see `decision_checks.has_all_rows`."""
        self._run(self.connection)

    def read_newest(self, work: Callable[[FileConnection], T]) -> T:
        """Read like `read`, after checking whether a newer decision is lost."""

        def found() -> T:
            self._mark.check(self.connection())
            return self._transaction("BEGIN", work)

        return self._run(found)

    def read_decisions(self, work: Callable[[FileConnection], T]) -> T:
        """Read decisions like `read_newest`, to act on them; the first call verifies every row."""

        def found() -> T:
            self._mark.check(self.connection(), rows=not self._is_checked)
            self._is_checked = True
            return self._transaction("BEGIN", work)

        return self._run(found)

    def read_rows(
        self,
        work: Callable[[FileConnection], T],
        table: DecisionTable,
        names: Collection[str],
    ) -> T:
        """Read a few decisions like `read_newest`; see `decision_checks.require_rows`.

        If they are damaged, all rows are verified first, and `work` is run again.
        """

        def verified(db: FileConnection) -> T:
            if not (self._is_complete or decision_checks.has_all_rows(db)):
                raise decision_checks.DamagedRowsError("rows of decisions are missing")
            self._is_complete = True
            decision_checks.require_rows(db, table, names)
            return work(db)

        def found() -> T:
            self._mark.check(self.connection())
            try:
                return self._transaction("BEGIN", verified)
            except decision_checks.DamagedRowsError:
                self._mark.check(self.connection(), rows=True)
                return self._transaction("BEGIN", verified)

        return self._run(found)

    def decide(
        self, work: Callable[[FileConnection], tuple[T, int | None]], scopes: Iterable[str]
    ) -> T:
        """Write decisions of some scopes like `write`.

        `work` returns its result, and the number of the newest decision if it made any.
        """

        def decided() -> T:
            with self._mark.locked():
                self._mark.check(self.connection())
                result, number = self._transaction("BEGIN IMMEDIATE", _counted(work))
                if number is not None:
                    self._mark.note(number, scopes)
                return result

        return self._run(decided)

    def replace_decisions(
        self, work: Callable[[FileConnection], object], number: int, scopes: Iterable[str]
    ) -> None:
        """Hold the decisions that `work` writes, with this number, and no others."""

        def replaced() -> None:
            with self._mark.locked():
                self._transaction("BEGIN IMMEDIATE", _counted(work))
                self._mark.write(number, scopes)

        self._run(replaced)

    def is_private(self) -> bool:
        """Return whether no other user can write to the file now, or replace it."""
        if os.name != "posix":
            return True  # the data folder of a user is their own there
        is_own = self.path.stat().st_uid == os.geteuid()
        return is_own and writable_by_others(str(self.path)) is None

    def connection(self) -> FileConnection:
        if self._is_closed:
            raise sqlite3.ProgrammingError("it is closed")
        return super().connection()

    def close(self) -> None:
        """Further calls raise; closing again does nothing."""
        with self._alone, _registry_errors(self.path):
            self._disconnect()
            self._is_closed = True

    def _run(self, step: Callable[[], T]) -> T:
        with _registry_errors(self.path):
            return super()._run(step)

    def _transaction(self, begin: str, work: Callable[[FileConnection], T]) -> T:
        connection = self.connection()
        if begin == "BEGIN":
            # To begin takes no lock. The first look does, so there is nothing to do again but it.
            reading = partial(transaction, connection, work, begin=begin, run=self._busy.retry)
            return self._busy.retry(reading, at_most=self._patience)
        with self._busy.writing():
            return transaction(connection, work, begin=begin, run=self._busy.retry)

    def _connected(self) -> FileConnection:
        return self._checked()

    def _checked(self, *, was_damaged: bool = False) -> FileConnection:
        connection = self._busy.retry(self._opened, at_most=self._patience)
        try:
            self._mark.check(connection, was_damaged=was_damaged)
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self) -> FileConnection:
        self._was_private = _make_private(self.path)
        self._is_checked = self._is_complete = False
        self._identity = file_identity(self.path)
        return self._prepared(timeout=0.0)

    def _prepare_tables(self, connection: FileConnection) -> None:
        connection.clock = self.clock
        # FULL does not sync the folder once a rollback journal is deleted: after a power cut the
        # journal may be there again, and undo what was committed. A write takes a fifth more.
        connection.execute("PRAGMA synchronous = EXTRA")
        migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")  # a step may replace a table
        if not self._was_private:
            drop_indexes(connection)  # others could have written them
            self.path.chmod(_PRIVATE)
        _set_journal(connection, self._journal)

    def _recover(self, error: Exception) -> bool:
        if not is_damage_or_bad_text(error):
            return False
        with self._mark.locked():  # a process that finds the same damage then finds the new file
            self._disconnect()
            is_mine = self._set_damaged_aside(error)
            self._connection = self._checked(was_damaged=is_mine)
        return True

    def _set_damaged_aside(self, damage: Exception) -> bool:
        """Returns whether the damaged file was there still; the log is locked."""
        if file_identity(self.path) != self._identity:
            return False  # another process has done it, and begun a new file
        aside = _free_name(self.path)
        move_database(self.path, aside)
        self.recovered = str(aside)
        logger.warning(
            "The registry %s is damaged (%s). It was set aside as %s and a new one begun; "
            "a refresh fills it again.",
            self.path,
            damage,
            aside.name,
        )
        return True


def load_index(connection: sqlite3.Connection, scope: str) -> bytes | None:
    query = "SELECT data FROM indexes JOIN scopes ON scopes.id = indexes.scope WHERE key = ?"
    row = connection.execute(query, (key_of(scope),)).fetchone()
    return row[0] if row and isinstance(row[0], bytes) else None


def drop_indexes(connection: sqlite3.Connection) -> None:
    """Drop the indexes of all scopes; nothing is written if there is none."""
    if connection.execute("SELECT 1 FROM indexes LIMIT 1").fetchone():
        connection.execute("DELETE FROM indexes")


def save_index(connection: sqlite3.Connection, scope: str, data: bytes) -> None:
    query = """
        INSERT INTO indexes (scope, data) SELECT id, ? FROM scopes WHERE key = ?
        ON CONFLICT (scope) DO UPDATE SET data = excluded.data
        """
    connection.execute(query, (data, key_of(scope)))


def _counted(work: Callable[[FileConnection], T]) -> Callable[[FileConnection], T]:
    """`work`, after which the number of rows of decisions is kept."""

    def write(connection: FileConnection) -> T:
        result = work(connection)
        decision_checks.note_count(connection)
        return result

    return write


def _make_private(path: Path) -> bool:
    """Make the file if it is not there, or close it to others; returns whether it was closed."""
    try:
        create_private(path)  # side files take its mode
    except FileExistsError:
        # Even to set the mode that it has is refused where nothing can be written.
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) != _PRIVATE and path.is_file():
            path.chmod(_CLOSED_JUST_NOW)
            return False
    return True


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    [present] = connection.execute("PRAGMA journal_mode").fetchone()
    if present != mode:
        # Refused while others have the file open; both modes keep what was committed.
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA journal_mode = {mode}")


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return name


@contextmanager
def _registry_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, UnicodeDecodeError) as exc:
        if is_busy(exc):
            raise RegistryError(
                f"the registry {str(path)!r} is locked by another process",
                hint="try again once that has ended, or choose another data folder",
            ) from exc
        raise RegistryError(
            f"the registry {str(path)!r} cannot be used: {exc}",
            hint="move it away, or choose another data folder",
        ) from exc
