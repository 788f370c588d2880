"""The registry in one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.busy_handler import BusyHandler
from discovery_engine.store.sqlite.database import Database, sqlite_database
from discovery_engine.store.sqlite.sqlite_reader import SqliteReader
from discovery_engine.store.tables import decision_table, snapshot_table

if TYPE_CHECKING:
    from discovery_engine.store.records import DecisionExport
    from discovery_engine.store.sqlite.file_connection import FileConnection
    from discovery_engine.store.tables.decision_table import DecisionTable

T = TypeVar("T")


def open_sqlite(
    path: str | Path,
    *,
    patience: float | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    busy: BusyHandler | None = None,
    clock: Callable[[], float] = time.time,
    has_webhooks: bool = True,
) -> SqliteRegistry:
    """The registry at `path`, made with its folder if it is not there.

    Close it, or use it in a `with` statement.

    Args:
        path: Where it is.
        patience: The most seconds to wait for other processes before it can be read.
        sqlite_version: Of the SQLite in use.
        busy: Taken at it; those of the process if None.
        clock: Unix time in seconds, for the refresh queue and unused vectors.
        has_webhooks: Whether it stores events for webhooks; a copy of another registry must not.

    Raises:
        RegistryError: If it cannot be opened, or a newer version of the program made it.
    """
    database = sqlite_database(
        path, patience=patience, sqlite_version=sqlite_version, busy=busy, clock=clock
    )
    return SqliteRegistry(database, has_webhooks=has_webhooks)


class SqliteRegistry(
    SqliteReader,
    Registry,
    AbstractContextManager["SqliteRegistry"],
):
    """Made by `open_sqlite`; closed at the end of a `with` statement."""

    most_scopes = 50
    _are_verdicts_news = False

    def __init__(
        self,
        database: Database,
        *,
        has_webhooks: bool = True,
    ) -> None:
        SqliteReader.__init__(self, database)
        Registry.__init__(self)
        self._has_webhooks = has_webhooks

    @property
    def recovered(self) -> str | None:
        """The path to which a damaged registry was moved from here; None if none was."""
        return self._database.recovered

    def changes(self) -> AsyncGenerator[None]:
        # Most processes end long before anything changes, and start sooner without an event loop.
        from discovery_engine.store.sqlite.changes import decision_changes  # noqa: PLC0415

        database = self._database

        def newest() -> tuple[int, str, int]:
            decision = self.newest_decision()
            saved = database.read(snapshot_table.newest_listing)
            return decision, self.requests_mark(), saved

        return decision_changes(database.path, newest)

    def newest_decision(self) -> int:
        return self._database.read_newest(decision_table.newest)

    def import_decisions(self, decisions: DecisionExport) -> bool:
        if decisions.after is None:
            self._database.replace_decisions(
                partial(decision_table.replace, decisions=decisions),
                decisions.number,
                decisions.scopes,
            )
            return True

        def add(db: FileConnection) -> tuple[bool, int | None]:
            newest = decision_table.newest(db)
            last = decision_table.last_accepted(db, newest)
            if (newest, last) != (decisions.after, decisions.last):
                return False, None
            decision_table.replace(db, decisions, kept=[decision_table.ACCEPTANCES])
            return True, decisions.number

        return self._database.decide(add, decisions.scopes)

    def _read_decisions(self, work: Callable[[FileConnection], T]) -> T:
        return self._database.read_decisions(work)

    def _read_rows(
        self, work: Callable[[FileConnection], T], table: DecisionTable, names: Collection[str]
    ) -> T:
        return self._database.read_rows(work, table, names)

    def _write_decisions(
        self, work: Callable[[FileConnection], tuple[T, int | None]], scopes: Iterable[str]
    ) -> T:
        return self._database.decide(work, scopes)

    def __exit__(self, *_: object) -> None:
        self.close()
