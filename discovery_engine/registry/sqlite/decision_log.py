"""Keeps the two copies of the decisions the same: the database's, and the journal beside it.

A decision is committed to the database, then appended to the journal and synced, all under one
lock. So the journal is never ahead, unless the database was lost, damaged, or replaced by an older
copy; then it is restored. Where the journal is behind, damaged or gone, it is written anew.
Decisions that both copies lack, though the marker records that there were some, are lost, and the
loss is recorded like a decision.

A file of lines rather than a second SQLite file: any damage to it shows by its checksums, one
decision costs one more sync instead of three, and a start finds out whether both agree by its last
80 bytes.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from discovery_engine.registry.records import EVERY_SCOPE, EffectiveDecisions, LossRecord, Record
from discovery_engine.registry.sqlite import decision_tables
from discovery_engine.registry.sqlite.busy_handler import BusyHandler, busy_handler_at
from discovery_engine.registry.sqlite.decision_marker import DecisionMarker, DecisionMarkerFile
from discovery_engine.registry.sqlite.decision_tables import StoredDecisions
from discovery_engine.registry.sqlite.journal import (
    Journal,
    JournalContent,
    JournalHead,
    lines_after,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Records that later ones have made void: so many, beside as many as still count, before the
# journal is written anew.
_MOST_VOID = 1000


class Depth(Enum):
    """How much of the two copies is compared."""

    NEWEST = auto()
    """Their newest decision."""
    JOURNAL = auto()
    """And each line of the journal, if another process wrote to it since it was last compared.

    That costs 17 us for each decision, and nearly all of them are tools that were accepted."""
    ROWS = auto()
    """Their newest decision, and each row of the database."""


class DecisionLog:
    """Of the registry at a path.

    Args:
        path: Of the database.
        busy: Taken at it.
        patience: The most seconds to wait for other processes with reading it.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        path: Path,
        busy: BusyHandler,
        *,
        patience: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._busy = busy
        self._patience = patience
        self._clock = clock
        mark = path.with_suffix(".mark")
        self._journal = Journal(path.with_suffix(".decisions"))
        self._mark = DecisionMarkerFile(mark, busy_handler_at(mark))

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of all who decide; it may be taken again."""
        return self._mark.locked()

    def check(
        self, connection: sqlite3.Connection, *, depth: Depth, was_damaged: bool = False
    ) -> None:
        """Make both copies the same; if they are, nothing is written and no lock is taken.

        Args:
            connection: Of the database, outside a transaction.
            depth: How much of them is compared.
            was_damaged: Another database stood in the place of this one, and is damaged.

        Raises:
            OSError, sqlite3.Error: If they cannot be read, or not be written.
        """
        agree = partial(self._agree, connection, depth)
        if not was_damaged and self._busy.retry(agree, at_most=self._patience):
            return
        try:
            with self.locked():
                if was_damaged or not self._busy.retry(partial(self._agree_whole, connection)):
                    self._reconcile(connection, was_damaged=was_damaged)
        except BlockingIOError:
            raise
        except OSError:
            # Where nothing can be written the database will do, unless something newer is known.
            if was_damaged or self._newest_elsewhere() > decision_tables.head(connection).number:
                raise

    def write(
        self,
        connection: sqlite3.Connection,
        work: Callable[[sqlite3.Connection], tuple[T, Sequence[Record]]],
    ) -> tuple[T, JournalEntries | None]:
        """Do `work` within a transaction; `append` the rest once that is committed."""
        before = decision_tables.head(connection)
        result, records = work(connection)
        if not records:
            return result, None
        lines, head = lines_after(before, records)
        decision_tables.set_head(connection, head)
        scopes = frozenset(record.scope for record in records)
        return result, JournalEntries(before, lines, head.number, scopes, self._journal.stamp())

    def replace(
        self, connection: sqlite3.Connection, work: Callable[[], tuple[int, EffectiveDecisions]]
    ) -> None:
        """Hold what `work` has written to the database, with its number, in all copies."""
        with self.locked():
            self._busy.retry(partial(connection.execute, "BEGIN IMMEDIATE"))
            try:
                number, effective = work()
                head = self._journal.replace(tuple(effective), number=number)
                decision_tables.set_head(connection, head)
                self._busy.retry(partial(connection.execute, "COMMIT"))
            except BaseException:
                with suppress(sqlite3.Error):  # the first error is the one to report
                    connection.rollback()
                raise
            self._mark.write(head.number, effective.scopes, self._journal.stamp())

    def append(self, new: JournalEntries) -> None:
        """Write to the journal what was committed; the lock is held since the last `check`.

        The decision is kept in every case.
        """
        try:
            self._journal.append(new.lines, after=new.before)
            mark = self._mark.read()
            known = mark.scopes if mark and mark.scopes else frozenset()
            # Its other lines held when this process last compared it, or it has another stamp.
            held = mark is None or (mark.journal is not None and mark.journal == new.stamp)
            stamp = self._journal.stamp() if held else None
            self._mark.write(new.number, known | new.scopes, stamp)
        except OSError as error:
            self._warn_of_single_copy(error)

    def _agree(self, connection: sqlite3.Connection, depth: Depth) -> bool:
        """Whether both copies and the mark name the same decision as the newest, and more."""
        head, mark = decision_tables.head(connection), self._mark.read()
        if head == JournalHead():
            return mark is None and not self._journal.path.exists()
        if mark is None or mark.scopes is None or mark.number != head.number:
            return False
        if self._journal.head() != head:
            return False
        if depth is Depth.ROWS:
            stored, records = decision_tables.stored(connection), self._journal.length()
            return stored.is_sound and records is not None and not _is_mostly_void(records, stored)
        is_untouched = mark.is_settled and mark.journal == self._journal.stamp()
        return depth is Depth.NEWEST or is_untouched

    def _agree_whole(self, connection: sqlite3.Connection) -> bool:
        """Whether every line and row is valid; the marker then records it. The lock is held."""
        head, mark = decision_tables.head(connection), self._mark.read()
        stamp = self._journal.stamp()
        if head == JournalHead():
            return mark is None and stamp is None
        if mark is None or mark.scopes is None or mark.number != head.number:
            return False
        verified, stored = self._journal.verified(), decision_tables.stored(connection)
        if verified is None or verified.head != head or not stored.is_sound:
            return False
        if _is_mostly_void(verified.records, stored):
            return False
        with suppress(OSError):
            self._mark.write(mark.number, mark.scopes, stamp)
        return True

    def _newest_elsewhere(self) -> int:
        """The number of the newest decision in the journal and the marker."""
        head, mark = self._journal.head(), self._mark.read()
        return max(head.number if head else 0, mark.number if mark else 0)

    def _reconcile(self, connection: sqlite3.Connection, *, was_damaged: bool) -> None:
        """Write the newest decisions to both copies and the marker; the lock is held."""
        self._busy.retry(partial(connection.execute, "BEGIN IMMEDIATE"))
        try:
            stored, content, mark = (
                decision_tables.stored(connection),
                self._journal.read(),
                self._mark.read(),
            )
            found = _reconciliation(stored, content, mark, was_damaged=was_damaged)
            if found.lost:
                for scope in found.lost:
                    found.effective.add(LossRecord(scope, self._clock()))
            if (
                found.effective != stored.effective
                or not stored.is_sound
                or not stored.head.checksum
            ):
                decision_tables.replace(connection, found.effective)
            head = self._rewritten(content, found)
            decision_tables.set_head(connection, head)
            self._busy.retry(partial(connection.execute, "COMMIT"))
        except BaseException:
            with suppress(sqlite3.Error):  # the first error is the one to report
                connection.rollback()
            raise
        if head.number:
            with suppress(OSError):
                stamp = self._journal.stamp() if head.checksum else None
                self._mark.write(head.number, found.effective.scopes, stamp)
        self._report(stored, content, found)

    def _rewritten(self, content: JournalContent | None, found: _Reconciliation) -> JournalHead:
        """The head of the journal, once it holds what was found."""
        records = tuple(found.effective)
        if not records and not found.number:
            return JournalHead()
        is_same = (
            content is not None
            and content.is_whole
            and content.head.number == found.number
            and EffectiveDecisions.of(content.records) == found.effective
            and len(content.records) <= 2 * len(records) + _MOST_VOID
        )
        if is_same and content:
            return content.head
        try:
            return self._journal.replace(records, number=found.number)
        except OSError as error:
            self._warn_of_single_copy(error)
            return JournalHead(found.number, "")

    def _report(
        self, stored: StoredDecisions, content: JournalContent | None, found: _Reconciliation
    ) -> None:
        missing = sum(
            getattr(stored.effective, kind).get(key) != record
            for kind in ("approvals", "acceptances", "servers", "switches")
            for key, record in getattr(found.effective, kind).items()
        )
        if missing:
            logger.warning(
                "The registry %s lacked the newest decisions of its owner: %d (approvals, accepted"
                " tools, servers) were restored from %s",
                self._path,
                missing,
                self._journal.path,
            )
        elif content and not content.is_whole:
            logger.warning(
                "The second copy of decisions %s was damaged, and is written anew from the"
                " registry",
                self._journal.path,
            )

    def _warn_of_single_copy(self, error: OSError) -> None:
        logger.warning(
            "Decisions are kept, but their second copy %s cannot be written: %s",
            self._journal.path,
            error,
        )


def _is_mostly_void(records: int, stored: StoredDecisions) -> bool:
    """Whether later records have made most of the journal's void."""
    return records > 2 * len(stored.effective) + _MOST_VOID


def last_known(path: Path) -> EffectiveDecisions:
    """The decisions of the second copy, where the registry at `path` itself cannot be used."""
    try:
        content = Journal(path.with_suffix(".decisions")).read()
        mark = DecisionMarkerFile(path.with_suffix(".mark"), BusyHandler()).read()
    except OSError:  # nothing there can be read
        return EffectiveDecisions()
    nothing = StoredDecisions(EffectiveDecisions(), JournalHead(), is_sound=True)
    found = _reconciliation(nothing, content, mark, was_damaged=False)
    for scope in found.lost:
        found.effective.add(LossRecord(scope, time.time()))
    return found.effective


class JournalEntries(Struct, frozen=True):
    """What a committed decision adds to the journal."""

    before: JournalHead
    lines: bytes
    number: int
    scopes: frozenset[str]
    stamp: tuple[int, ...] | None
    """The stamp of the journal before."""


class _Reconciliation(Struct, frozen=True):
    effective: EffectiveDecisions
    number: int
    """Of the newest decision, a loss among them."""
    lost: frozenset[str]
    """The scopes of which decisions are in neither copy."""


def _reconciliation(
    stored: StoredDecisions,
    content: JournalContent | None,
    mark: DecisionMarker | None,
    *,
    was_damaged: bool,
) -> _Reconciliation:
    """What holds, by the newer copy, and whether there was more.

    The journal's records each have a checksum that binds them to all before, so of two copies that
    are equally new it is the one to believe.
    """
    if content and content.head.number >= stored.head.number:
        effective, number = EffectiveDecisions.of(content.records), content.head.number
        is_certain = True
    else:
        effective, number = stored.effective, stored.head.number
        is_certain = stored.is_sound
    if mark:
        is_lost = mark.number > number
    else:  # what is damaged is a sign that there was something
        is_torn = content is not None and not content.is_whole
        is_lost = not stored.head.number and (is_torn or (was_damaged and content is None))
    if is_certain and not is_lost:
        return _Reconciliation(effective, number, frozenset())
    number = max(number, mark.number if mark else 0) + 1
    if mark is None or mark.scopes is None:
        return _Reconciliation(effective, number, frozenset({EVERY_SCOPE}))
    return _Reconciliation(effective, number, mark.scopes | effective.scopes)
