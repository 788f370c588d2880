"""The file of the call log: an SQLite database that several processes write, in turns.

It can be lost: a damaged file is set aside, and a new one is begun. A process writes while it holds
a lock beside the file. That is what keeps the file whole: SQLite before 3.51.3 can damage a
write-ahead log if two processes checkpoint it at once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.sqlite_file import SqliteFile
from discovery_engine.store.call_log.log_tables import (
    DAMAGED,
    FILE,
    PAGE,
    CallLogError,
    Loss,
    Row,
    add_minutes,
    add_tally,
    encoded_tally,
    insert,
    pragma,
    prepare,
    read_counts,
    replace_running,
    scope_id,
)
from discovery_engine.store.call_log.tally import Tally

T = TypeVar("T")

_LOCK = "calls.lock"
_LOG_BUSY_TIMEOUT = 5.0  # seconds to wait for another process
_FREED_AT_ONCE = 64  # pages that are given back to the disk at once: 1 MiB
_LOSSES = 100  # that are remembered
_DAY = 86_400.0  # seconds
_WEEK = 7 * _DAY
_YEAR = 366 * _DAY


class Retention(Struct, frozen=True):
    """The time for which entries are kept."""

    days: float = 30.0
    mib: float = 64.0

    @property
    def pages(self) -> int:
        return int(self.mib * 1024 * 1024) // PAGE


class LogDatabase:
    """One process's access to the file; its methods block and belong in one thread."""

    def __init__(self, folder: Path, scope: str, *, patience: float = _LOG_BUSY_TIMEOUT) -> None:
        """Open nothing yet; `scope` names the configuration that entries belong to."""
        self.path = folder / FILE
        self._lock = folder / _LOCK
        self._scope_name = scope
        self._patience = patience
        self.file = SqliteFile[sqlite3.Connection](
            self.path, self._prepare, aside=self.path.with_name(DAMAGED), timeout=patience
        )
        self._scope = 0

    def write(
        self,
        rows: Sequence[Row],
        tallies: Mapping[tuple[str, str], Tally],
        losses: Sequence[Loss] = (),
        *,
        now: float,
    ) -> None:
        """Write entries, add counts, and record losses; all or nothing.

        Raises:
            CallLogError: If they cannot be written.
        """

        def work(db: sqlite3.Connection) -> None:
            scope = self._scope
            insert(db, scope, rows)
            for (server, tool), tally in tallies.items():
                add_tally(db, scope, server, tool, tally, now)
            add_minutes(db, scope, rows, {server for server, _ in tallies})
            db.executemany(
                "INSERT INTO losses VALUES (?, ?, ?)",
                [(loss.at, loss.entries, loss.reason) for loss in losses],
            )
            if losses:
                oldest = "SELECT rowid FROM losses ORDER BY rowid DESC LIMIT -1 OFFSET ?"
                db.execute(f"DELETE FROM losses WHERE rowid IN ({oldest})", (_LOSSES,))  # noqa: S608

        self._run(work)

    def write_running(self, process: str, calls: str, *, now: float) -> None:
        """Replace the running calls of a process; `calls` is JSON, empty if there are none.

        Raises:
            CallLogError: If they cannot be written.
        """
        self._run(lambda db: replace_running(db, process, self._scope, calls, now))

    def prune(self, retention: Retention, *, at_most: int, now: float) -> bool:
        """Delete some of the oldest entries that are too many or too old, and old counts by minute.

        Returns whether there are more of these.

        Raises:
            CallLogError: If they cannot be deleted.
        """

        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM minute_counts WHERE at < ?", (now - _WEEK - _DAY,))
            oldest = f"SELECT id, at FROM entries ORDER BY id LIMIT {at_most:d}"  # noqa: S608 - a number
            chosen = f"SELECT id FROM ({oldest}) WHERE at < ? OR ?"  # noqa: S608 - as above
            is_large = pragma(db, "page_count") - pragma(db, "freelist_count") > retention.pages
            done = db.execute(
                f"DELETE FROM entries WHERE id IN ({chosen})",  # noqa: S608 - as above
                (now - retention.days * _DAY, is_large),
            )
            return done.rowcount == at_most

        return self._run(work)

    def forget_tools(self, *, now: float) -> None:
        """Delete the counts of tools that were not called for a year.

        Raises:
            CallLogError: If they cannot be deleted.
        """

        def work(db: sqlite3.Connection) -> None:
            for counted in read_counts(db, self._scope_name):
                if counted.tally.last_called_at < now - _YEAR:
                    db.execute(
                        "DELETE FROM tool_counts WHERE scope = ? AND server = ? AND tool = ?",
                        (self._scope, counted.server, counted.tool),
                    )

        self._run(work)

    def shrink(self) -> bool:
        """Give a few free pages back to the disk; returns whether there are more.

        Some stay for the next entries.

        Raises:
            CallLogError: If the file cannot be written.
        """

        def work(db: sqlite3.Connection) -> bool:
            free = pragma(db, "freelist_count") - pragma(db, "page_count") // 10
            if free > 0:
                db.execute(f"PRAGMA incremental_vacuum({min(free, _FREED_AT_ONCE)})").fetchall()
            return free > _FREED_AT_ONCE

        return self._run(work)

    def clear(self) -> int:
        """Delete all entries of this configuration, so that nothing is left of them in the file.

        Raises:
            CallLogError: If they cannot be deleted.
        """

        def work(db: sqlite3.Connection) -> int:
            done = db.execute("DELETE FROM entries WHERE scope = ?", (self._scope,))
            return done.rowcount

        if not self.path.exists():
            return 0
        count = self._run(work)
        with self._locked(), self._errors():
            # Deleted rows stay in free pages and in the write-ahead log until they are overwritten.
            db = self.file.connection()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return count

    def reset_errors(self, server: str | None, *, now: float) -> None:
        """Count errors of a server, of all with None, from zero.

        Raises:
            CallLogError: If it cannot be written.
        """

        def work(db: sqlite3.Connection) -> None:
            for counted in read_counts(db, self._scope_name, server):
                tally = counted.tally
                tally.errors = 0
                db.execute(
                    "UPDATE tool_counts SET tally = ?, errors_since = ?"
                    " WHERE scope = ? AND server = ? AND tool = ?",
                    (encoded_tally(tally), now, self._scope, counted.server, counted.tool),
                )

        if self.path.exists():
            self._run(work)

    def check(self) -> None:
        """Write something, and take it back; no-op if there is no file.

        Raises:
            CallLogError: If that fails.
        """

        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO losses VALUES (0, 0, '')")
            db.execute("DELETE FROM losses WHERE at = 0")

        if self.path.exists():
            self._run(work)

    def close(self) -> None:
        """Close the file; the next method opens it again."""
        if self.file.is_open:
            # The last one to close checkpoints, which must not happen twice at once.
            with suppress(CallLogError), self._locked():
                self.file.close()
            self.file.close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._locked(), self._errors():
            return self.file.write(work)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            descriptor = open_locked(self._lock, at_most=self._patience)
        except BlockingIOError:
            message = f"the call log {self.path} is locked by another process"
            raise CallLogError(message, hint="end the process that hangs") from None
        except OSError as error:
            raise self._error(error) from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        prepare(connection)
        self._scope = scope_id(connection, self._scope_name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> CallLogError:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        hint = "free the disk, or move the file away; calls go on without it"
        return CallLogError(f"the call log {self.path} cannot be used: {reason}", hint=hint)
