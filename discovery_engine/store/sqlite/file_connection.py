"""A connection to an SQLite file, as the statements of all back-ends use it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any


class FileConnection(sqlite3.Connection):
    """A connection as `store.statements` has it."""

    for_update = skip_locked = ""
    """A transaction that writes has no others beside it."""
    clock: Callable[[], float] = staticmethod(time.time)

    next_save = "(SELECT coalesce(max(saved), 0) + 1 FROM scopes)"

    def next_fences(self, count: int) -> range:
        self.execute("UPDATE refresh_fences SET last = last + ?", (count,))
        [last] = self.execute("SELECT last FROM refresh_fences").fetchone()
        return range(last - count + 1, last + 1)

    with_numbers = ""

    def continue_numbers(self) -> None:
        self.execute(
            """
            UPDATE refresh_fences
            SET last = max(last, (SELECT coalesce(max(fence), 0) FROM refresh_jobs))
            """
        )

    def lock_table(self, table: str) -> None:
        """Do nothing: a transaction that writes has no others beside it."""

    def rows(
        self,
        statement: str,
        parameters: Sequence[Any],
        /,
        *,
        at_once: int,  # noqa: ARG002 - it is all there
    ) -> sqlite3.Cursor:
        return self.execute(statement, parameters)

    def now(self) -> float:
        return self.clock()
