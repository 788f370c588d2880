"""The tables of a registry in SQLite, and the numbered steps to them.

`schema.sql` makes the present tables in an empty file. A step `NNNN_what.sql` leads from the
version before to NNNN; the first of them leads on from the last released version. Once released, a
step is never edited. `user_version` is the version of a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from discovery_engine.errors import RegistryError
from discovery_engine.store.stored_text import key_of, to_column
from discovery_engine.store.tables.decision_table import checksum_of

_FOLDER = Path(__file__).parent
_VERSION = "-- version: "


def migrate(connection: sqlite3.Connection, folder: Path = _FOLDER) -> None:
    """Bring a file to the present version, wholly or not at all; nothing is written if it has it.

    The connection must be in autocommit mode and outside a transaction.

    Raises:
        RegistryError: If the database was made by a newer version, or by one of which no step
            leads on; it is left as it is.
    """
    schema = (folder / "schema.sql").read_text("utf-8")
    steps = sorted(folder.glob("[0-9]*.sql"))
    newest = int(schema.partition("\n")[0].removeprefix(_VERSION))
    oldest = newest - len(steps)
    if _version(connection, oldest=oldest, newest=newest) == newest:
        return
    connection.create_function("key_of", -1, key_of, deterministic=True)
    connection.create_function("to_column", 1, _escaped, deterministic=True)
    connection.create_function("checksum_of", -1, _checksum, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been here since the first look.
        version = _version(connection, oldest=oldest, newest=newest)
        scripts = [step.read_text("utf-8") for step in steps[version - oldest :]]
        for script in scripts if version else [schema]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _version(connection: sqlite3.Connection, *, oldest: int, newest: int) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version > newest:
        raise RegistryError(
            f"the registry has version {version}; this program supports versions up to {newest}",
            hint="update the program, or let it use another data folder",
        )
    if 0 < version < oldest:
        raise RegistryError(
            f"the registry has version {version}; this program updates those from {oldest} on",
            hint="let an earlier version of the program update it, or use another data folder",
        )
    return int(version)


def _escaped(value: str | bytes) -> str:
    # Programs before wrote text that is not UTF-8 as bytes.
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
    return to_column(text)


def _checksum(*columns: object) -> str:
    return checksum_of(columns)


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit first, and a step must not be seen half taken.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
