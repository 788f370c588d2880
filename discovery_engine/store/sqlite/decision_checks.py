"""Checks of the decisions in a file, so that damage which leaves it readable shows as well.

Each row has a checksum, and the number of rows is kept. An index that is damaged may hide a row: it
is compared with its table once, and what reads all decisions scans the tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from discovery_engine.store.stored_text import key_of
from discovery_engine.store.tables.decision_table import (
    TABLES,
    DecisionTable,
    checksum_of,
    stored_rows,
)

if TYPE_CHECKING:
    from discovery_engine.store.records import Record
    from discovery_engine.store.statements import Connection

_COUNT = " + ".join(f"(SELECT count(*) FROM {table.name} NOT INDEXED)" for table in TABLES)  # noqa: S608 - constants


class DamagedRowsError(sqlite3.DatabaseError):
    """Rows of decisions were changed, or are missing."""


def note_count(connection: Connection) -> None:
    """Keep how many rows there are."""
    connection.execute(f"UPDATE decision_log SET rows = {_COUNT}")  # noqa: S608 - constants


def has_all_rows(connection: Connection) -> bool:
    """Return whether there are as many rows as were written, and their index shows all of them."""
    # 0.7 us for each acceptance, once for a process that lists; to verify all of them costs 8.
    statement = f"""
        SELECT rows = {_COUNT} AND NOT EXISTS (
            SELECT 1 FROM acceptances AS a NOT INDEXED WHERE NOT EXISTS (
                SELECT 1 FROM acceptances AS b INDEXED BY acceptances_by_server
                WHERE b.server_key = a.server_key AND b.number = a.number
            )
        ) FROM decision_log
        """  # noqa: S608 - constants
    row = connection.execute(statement).fetchone()
    return bool(row and row[0])


def require_rows(connection: Connection, table: DecisionTable, names: Collection[str]) -> None:
    """Verify the rows of a scope, or of a scope and a server.

    Raises:
        DamagedRowsError: If one was changed.
    """
    column = "scope_key" if len(names) == 1 else "server_key"
    statement = f"SELECT {table.columns} FROM {table.name} WHERE {column} = ?"  # noqa: S608 - constants
    if not all(map(_is_intact, connection.execute(statement, (key_of(*names),)))):
        raise DamagedRowsError(f"rows of {table.name} are damaged")


def is_sound(connection: Connection) -> bool:
    """Return whether no row was changed, and none is missing."""
    rows = (row for table in TABLES for row in stored_rows(connection, table))
    return has_all_rows(connection) and all(map(_is_intact, rows))


def intact_records(connection: Connection) -> list[Record]:
    """The decisions of all scopes; damaged rows are left out."""
    return [
        table.record_of(row)
        for table in TABLES
        for row in stored_rows(connection, table)
        if _is_intact(row)
    ]


def _is_intact(row: Sequence[object]) -> bool:
    return row[-1] == checksum_of(row[1:-1])
