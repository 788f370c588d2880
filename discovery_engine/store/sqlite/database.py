"""One SQLite file: private to its owner, at the present version, changed in whole transactions.

A damaged file is set aside and a new one begun. The content was listed from upstreams and
can be listed again, so losing it costs a refresh; refusing to start would cost more.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from discovery_engine._util.sqlite_file import (
    create_private,
    file_identity,
    is_damage_or_bad_text,
    move_database,
    transaction,
)
from discovery_engine.config.files.permissions import writable_by_others
from discovery_engine.errors import RegistryError
from discovery_engine.store.sqlite import decision_checks, index_table
from discovery_engine.store.sqlite.busy_handler import BusyHandler, busy_handler_at, is_busy
from discovery_engine.store.sqlite.decision_mark import DecisionMark
from discovery_engine.store.sqlite.file_connection import FileConnection
from discovery_engine.store.sqlite.migrations import migrate
from discovery_engine.store.tables.decision_table import DecisionTable

logger = logging.getLogger(__name__)

T = TypeVar("T")

# SQLite's message about a damaged schema quotes it; Python raises the second where that is no text.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_Error = sqlite3.Error | UnicodeDecodeError
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
    """The file of a registry; see `store.sqlite.registry.open_sqlite`."""
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


class Database:
    """An open file; calls may come from any thread and take busy.

    A file that was removed, or that another one took the place of, is opened anew.

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
        self.path = path
        self.recovered: str | None = None
        """Where a damaged file was put that stood in this one's place; None if none did."""
        self._journal = "wal" if sqlite_version >= _WAL_IS_SAFE else "delete"
        self._busy = busy
        self._mark = mark
        self._patience = patience
        self.clock = clock
        self._alone = threading.RLock()
        self._is_closed = False
        self._is_checked = False
        """True if every row of decisions was verified."""
        self._is_complete = False
        """True if none is missing; see `decision_checks.has_all_rows`."""
        with _registry_errors(self.path):
            self._connection = self._opened()

    def read(self, work: Callable[[FileConnection], T]) -> T:
        """Run `work` on a consistent snapshot and return its result; it may be run twice."""
        return self._run(partial(self._found, work))

    def write(self, work: Callable[[FileConnection], T]) -> T:
        """Keep all that `work` does, or none; it is on the disk on return. It may be run twice."""
        return self._run(partial(self._written, work))

    def read_newest(self, work: Callable[[FileConnection], T]) -> T:
        """Read like `read`, after checking whether a newer decision is lost."""

        def found() -> T:
            self._mark.check(self._connection)
            return self._found(work)

        return self._run(found)

    def read_decisions(self, work: Callable[[FileConnection], T]) -> T:
        """Read decisions like `read_newest`, to act on them; the first call verifies every row."""

        def found() -> T:
            self._mark.check(self._connection, rows=not self._is_checked)
            self._is_checked = True
            return self._found(work)

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
            self._mark.check(self._connection)
            try:
                return self._found(verified)
            except decision_checks.DamagedRowsError:
                self._mark.check(self._connection, rows=True)
                return self._found(verified)

        return self._run(found)

    def decide(
        self, work: Callable[[FileConnection], tuple[T, int | None]], scopes: Iterable[str]
    ) -> T:
        """Write decisions of some scopes like `write`.

        `work` returns its result, and the number of the newest decision if it made any.
        """

        def decided() -> T:
            with self._mark.locked():
                self._mark.check(self._connection)
                result, number = self._written(_counted(work))
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
                self._written(_counted(work))
                self._mark.write(number, scopes)

        self._run(replaced)

    def is_private(self) -> bool:
        """Return whether no other user can write to the file now, or replace it."""
        if os.name != "posix":
            return True  # the data folder of a user is their own there
        is_own = self.path.stat().st_uid == os.geteuid()
        return is_own and writable_by_others(str(self.path)) is None

    def close(self) -> None:
        """Further calls raise; closing again does nothing."""
        with self._alone, _registry_errors(self.path):
            self._connection.close()
            self._is_closed = True

    def _run(self, work: Callable[[], T]) -> T:
        with self._alone, _registry_errors(self.path):
            try:
                self._follow()
                return work()
            except _ERRORS as exc:
                if not _is_damage(exc):
                    raise
                self._connection.close()
                self._connection = self._opened_anew(exc)
                return work()

    def _follow(self) -> None:
        """Open the file that is there now, if it is another one than was opened."""
        if self._is_closed or file_identity(self.path) == self._identity:
            return
        self._connection.close()
        self._connection = self._opened()

    def _found(self, work: Callable[[FileConnection], T]) -> T:
        # To begin takes no lock. The first look does, so there is nothing to do again but it.
        reading = partial(self._transaction, "BEGIN", work)
        return self._busy.retry(reading, at_most=self._patience)

    def _written(self, work: Callable[[FileConnection], T]) -> T:
        with self._busy.writing():
            return self._transaction("BEGIN IMMEDIATE", work)

    def _transaction(self, begin: str, work: Callable[[FileConnection], T]) -> T:
        return transaction(self._connection, work, begin=begin, run=self._busy.retry)

    def _opened(self) -> FileConnection:
        try:
            return self._ready()
        except _ERRORS as exc:
            if not _is_damage(exc):
                raise
            return self._opened_anew(exc)

    def _opened_anew(self, damage: _Error) -> FileConnection:
        """Set a damaged file aside, and open a new one in its place."""
        with self._mark.locked():  # a process that finds the same damage then finds the new file
            is_mine = self._set_aside(damage)
            return self._ready(was_damaged=is_mine)

    def _ready(self, *, was_damaged: bool = False) -> FileConnection:
        connection = self._busy.retry(self._connected, at_most=self._patience)
        try:
            self._mark.check(connection, was_damaged=was_damaged)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self) -> FileConnection:
        was_private = _make_private(self.path)
        self._is_checked = self._is_complete = False
        self._identity = file_identity(self.path)
        connection = sqlite3.connect(
            self.path,
            timeout=0.0,
            isolation_level=None,
            check_same_thread=False,
            factory=FileConnection,
        )
        connection.clock = self.clock
        try:
            # FULL does not sync the folder once a rollback journal is deleted: after a power cut
            # the journal may be there again, and undo what was committed. A write takes a fifth
            # more for it.
            connection.execute("PRAGMA synchronous = EXTRA")
            migrate(connection)
            connection.execute("PRAGMA foreign_keys = ON")  # a step may replace a table
            if not was_private:
                index_table.drop(connection)  # others could have written them
                self.path.chmod(_PRIVATE)
            _set_journal(connection, self._journal)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, damage: _Error) -> bool:
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


def _is_damage(error: _Error) -> bool:
    return isinstance(error, UnicodeDecodeError) or is_damage_or_bad_text(error)


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return name


@contextmanager
def _registry_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, *_ERRORS) as exc:
        if is_busy(exc):
            raise RegistryError(
                f"the registry {str(path)!r} is locked by another process",
                hint="try again once that has ended, or choose another data folder",
            ) from exc
        raise RegistryError(
            f"the registry {str(path)!r} cannot be used: {exc}",
            hint="move it away, or choose another data folder",
        ) from exc
