"""The mark of a registry: a small file beside it, by which decisions that are lost show.

A decision is committed to the database, and then named in the mark, under the lock of the mark. So
a mark that names a newer decision than the database means that the database was lost, damaged or
replaced by an older copy. What is lost is not restored: the loss is recorded like a decision, and
nothing is accepted at first sight until the owner has acknowledged it.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.digests import blake2b
from discovery_engine._util.file_lock import lock_file
from discovery_engine.store.records import (
    EVERY_SCOPE,
    DecisionExport,
    LossRecord,
)
from discovery_engine.store.sqlite import decision_checks
from discovery_engine.store.sqlite.busy_handler import BusyHandler, busy_handler_at
from discovery_engine.store.sqlite.file_connection import FileConnection
from discovery_engine.store.tables import decision_table

logger = logging.getLogger(__name__)

_SUFFIX = ".mark"
_PRIVATE = 0o600
_DIGEST = 8  # bytes
_MAX_MARK_BYTES = 1 << 20  # bytes that are read of it


class Mark(Struct, frozen=True):
    number: int
    """The number of the newest decision."""
    scopes: frozenset[str] | None
    """The scopes that have decisions; None if unknown."""


_UNREADABLE = Mark(1, None)  # the file exists, so there was a decision


class DecisionMark:
    """The mark of the registry at a path; its lock is reentrant within one thread.

    Args:
        path: Of the database.
        busy: Taken at the database.
        patience: The most seconds to wait for other processes with reading it.
    """

    def __init__(self, path: Path, busy: BusyHandler, *, patience: float | None = None) -> None:
        self._database = path
        self._path = path.with_suffix(_SUFFIX)
        self._busy = busy
        self._mark_busy = busy_handler_at(self._path)
        self._patience = patience
        self._depth = 0

    def check(
        self, connection: FileConnection, *, rows: bool = False, was_damaged: bool = False
    ) -> None:
        """Record a loss if decisions are missing; if none is, no lock is taken.

        Args:
            connection: Of the database, outside a transaction.
            rows: Verify each row, too.
            was_damaged: Another database stood in the place of this one, and is damaged.

        Raises:
            OSError, sqlite3.Error: If it cannot be read, or not be written.
        """
        agrees = partial(self._agrees, connection, rows=rows)
        if not was_damaged and self._busy.retry(agrees, at_most=self._patience):
            return
        try:
            with self.locked():
                if was_damaged or not self._busy.retry(agrees):
                    self._reconcile(connection, was_damaged=was_damaged)
        except BlockingIOError:
            raise
        except OSError:
            # Where nothing can be written the database will do, unless something newer is known.
            mark = _read(self._path)
            if was_damaged or (mark and mark.number > decision_table.newest(connection)):
                raise

    def note(self, number: int, scopes: Iterable[str]) -> None:
        """Name what was committed as the newest decision; the lock is held since the last `check`.

        It is not synced: after a power cut an older mark is incomplete, but not wrong. The decision
        is kept in every case.
        """
        mark = _read(self._path)
        old_scopes = mark.scopes if mark and mark.scopes else frozenset()
        try:
            self.write(number, old_scopes.union(scopes))
        except OSError as error:
            logger.warning(
                "A decision is kept, but %s cannot be written, so its loss would not show: %s",
                self._path,
                error,
            )

    def write(self, number: int, scopes: Iterable[str]) -> None:
        named = sorted(scopes)
        fields = {"number": number, "scopes": named, "checksum": _checksum(number, named, None)}
        content = json.dumps(fields).encode("ascii")
        with os.fdopen(self._opened(), "r+b", buffering=0) as file:
            file.write(content + b"\n")
            file.truncate()
        # Programs before kept the decisions a second time, in a file that is out of date now.
        self._database.with_suffix(".decisions").unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of all who decide; the lock of a process that ends is released.

        Raises:
            OSError: On timeout, or if the file cannot be written.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        with self._mark_busy.writing():
            descriptor = self._opened()
            try:
                self._mark_busy.retry(lambda: lock_file(descriptor))
                self._depth = 1
                yield
            finally:
                self._depth = 0
                os.close(descriptor)

    def _agrees(self, connection: FileConnection, *, rows: bool) -> bool:
        """Return whether both have the same newest decision; with `rows`, also if all are sound."""
        number, mark = decision_table.newest(connection), _read(self._path)
        if number == 0:
            return mark is None
        if mark is None or mark.scopes is None or mark.number != number:
            return False
        return not rows or decision_checks.is_sound(connection)

    def _reconcile(self, connection: FileConnection, *, was_damaged: bool) -> None:
        """Record what is lost, and have the mark name the newest decision; the lock is held."""
        self._busy.retry(partial(connection.execute, "BEGIN IMMEDIATE"))
        try:
            number, mark = decision_table.newest(connection), _read(self._path)
            intact = DecisionExport(
                number,
                tuple(decision_checks.intact_records(connection)),
                decision_table.marks(connection),
            )
            # A scope that has lost all of its decisions is still one of those that had any.
            scopes = intact.scopes
            is_behind = mark.number > number if mark else was_damaged and not number
            if is_behind or not decision_checks.is_sound(connection):
                number = max(number, mark.number if mark else 0) + 1
                scopes = scopes | mark.scopes if mark and mark.scopes else frozenset({EVERY_SCOPE})
                decision_table.replace(connection, replace(intact, number=number))
                for scope in scopes:
                    loss = LossRecord(scope, time.time(), number=number)
                    decision_table.save_loss(connection, loss)
                decision_checks.note_count(connection)
            self._busy.retry(partial(connection.execute, "COMMIT"))
        except BaseException:
            with suppress(sqlite3.Error):  # the first error is the one to report
                connection.rollback()
            raise
        if number:
            with suppress(OSError):
                self.write(number, scopes)

    def _opened(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT, _PRIVATE)


def has_decisions(database: Path) -> bool:
    """Return whether anything was ever decided in the registry at a path, by its mark."""
    return _read(database.with_suffix(_SUFFIX)) is not None


def _read(path: Path) -> Mark | None:
    """Return the mark; None if there was no decision yet."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_MARK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _UNREADABLE
    return _mark(content) if content else None


def _mark(content: bytes) -> Mark:
    try:
        match json.loads(content):
            case {"number": int(number), "scopes": list(scopes), "checksum": checksum, **rest}:
                # Programs before named the state of a second copy, too.
                if checksum == _checksum(number, scopes, rest.get("journal")):
                    return Mark(number, frozenset(map(str, scopes)))
    except (ValueError, RecursionError):
        pass
    return _UNREADABLE


def _checksum(*fields: object) -> str:
    return blake2b(json.dumps(fields).encode("ascii"), digest_size=_DIGEST).hexdigest()
