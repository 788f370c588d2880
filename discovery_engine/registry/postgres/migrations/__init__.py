"""The numbered steps from an empty database to the present one.

A step is a file `NNNN_what.sql`. Once released it is never edited: a change is the next step. Its
first line, `-- usable from: N`, has the number of the oldest step whose programs may still use the
database after it; so a gateway of the version before works on while others are updated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError
from discovery_engine.registry.postgres.timed_connection import SET_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

FOLDER = Path(__file__).parent

_LOCK = 0x646973636F766572  # of this program's migrations in a database: "discover"
_HEADER = "-- usable from: "


def migrate(
    connection: Connection, folder: Path = FOLDER, *, on_step: Callable[[], None] = lambda: None
) -> int:
    """Take the steps that are missing, all or none; returns the step that the database is at.

    `on_step` is called before each step.

    The connection must be in autocommit mode and outside a transaction.

    Raises:
        RegistryError: If a version of the program made it that this one cannot work beside.
        psycopg.Error: From the database.
    """
    steps = sorted(file for file in folder.iterdir() if file.suffix == ".sql")
    if (version := _version(connection, newest=len(steps))) >= len(steps):
        return version
    if version and not _is_owner(connection):
        raise RegistryError(
            f"the database has version {version}, and this program needs {len(steps)}, which its "
            "role may not make",
            hint="`discovery registry migrate` with the role that owns the tables, or start a "
            "gateway of this version with it",
        )
    with connection.transaction():
        connection.execute(SET_PATH)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Another process may have been here since the first look.
        version = _version(connection, newest=len(steps))
        if not version:
            _create_schema(connection)
        for number, step in enumerate(steps[version:], version + 1):
            script = step.read_text("utf-8")
            on_step()
            connection.execute(script.encode())
            usable_from = int(script.partition("\n")[0].removeprefix(_HEADER))
            connection.execute(
                "UPDATE discovery.schema_version SET version = %s, usable_from = %s",
                (number, usable_from),
            )
    return max(version, len(steps))


def _version(connection: Connection, *, newest: int) -> int:
    # Not `to_regclass`: within a transaction it may answer from before the lock was taken.
    query = (
        "SELECT 1 FROM pg_tables WHERE schemaname = 'discovery' AND tablename = 'schema_version'"
    )
    if connection.execute(query).fetchone() is None:
        return 0
    query = "SELECT version, usable_from FROM discovery.schema_version"
    version, usable_from = connection.execute(query).fetchone() or (0, 0)
    if usable_from > newest:
        raise RegistryError(
            f"the database has version {version}, which programs of version {newest} cannot use",
            hint="update the program; the newest gateway has updated the database",
        )
    return int(version)


def _is_owner(connection: Connection) -> bool:
    """Whether this role has the rights of the one that made the tables."""
    query = """
        SELECT pg_has_role(relowner, 'USAGE') FROM pg_class
        WHERE relnamespace = 'discovery'::regnamespace AND relname = 'schema_version'
        """
    row = connection.execute(query).fetchone()
    return bool(row and row[0])


def _create_schema(connection: Connection) -> None:
    # Not `IF NOT EXISTS` first: that needs the right to create schemas although there is one.
    has = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'discovery'").fetchone()
    if has is None:
        connection.execute("CREATE SCHEMA discovery")
    connection.execute(
        "CREATE TABLE discovery.schema_version (version int NOT NULL, usable_from int NOT NULL)"
    )
    connection.execute("INSERT INTO discovery.schema_version VALUES (0, 0)")
