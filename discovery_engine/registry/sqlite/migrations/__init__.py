"""The numbered steps from an empty database to the present one.

A step is a file `NNNN_what.sql`. Once released it is never edited: a change is the next step.
`user_version` is the number of the last step that was taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from discovery_engine.errors import RegistryError

_FOLDER = Path(__file__).parent


def migrate(connection: sqlite3.Connection, folder: Path = _FOLDER) -> None:
    """Take the steps that are missing, all or none; nothing is written if none is.

    The connection must be in autocommit mode and outside a transaction.

    Raises:
        RegistryError: If the database was made by a newer version; it is left as it is.
    """
    steps = sorted(file for file in folder.iterdir() if file.suffix == ".sql")
    if _version(connection, newest=len(steps)) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been here since the first look.
        for step in steps[_version(connection, newest=len(steps)) :]:
            for statement in _statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _version(connection: sqlite3.Connection, *, newest: int) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version > newest:
        raise RegistryError(
            f"the registry has version {version}; this program supports versions up to {newest}",
            hint="update the program, or let it use another data folder",
        )
    return int(version)


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit first, and a step must not be seen half taken.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
