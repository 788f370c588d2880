"""The tables of a database, and the numbered steps to them.

`schema.sql` makes the present tables in an empty database. A step `NNNN_what.sql` leads from the
version before to NNNN; the first of them leads on from the last released version. Once released, a
step is never edited. Its first line, `-- usable from: N`, has the oldest version whose programs may
still use the database after it; so a gateway of the version before works on while others are
updated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError
from discovery_engine.store.postgres.timed_connection import SET_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

FOLDER = Path(__file__).parent

_LOCK = 0x646973636F766572  # of this program's migrations in a database: "discover"
_VERSION = "-- version: "
_HEADER = "-- usable from: "


def migrate(
    connection: Connection, folder: Path = FOLDER, *, on_step: Callable[[], None] = lambda: None
) -> int:
    """Bring a database to the present version, wholly or not at all; returns its version.

    `on_step` is called before each step, and each statement of a new schema.

    The connection must be in autocommit mode and outside a transaction.

    Raises:
        RegistryError: If a version of the program made it that this one cannot work beside, or one
            of which no step leads on.
        psycopg.Error: From the database.
    """
    newest, steps, schema = _versions(folder)
    oldest = newest - len(steps)
    if (version := _version(connection, oldest=oldest, newest=newest)) >= newest:
        return version
    if version and not _is_owner(connection):
        raise RegistryError(
            f"the database has version {version}, and this program needs {newest}, which its "
            "role may not make",
            hint="`discovery registry migrate` with the role that owns the tables, or start a "
            "gateway of this version with it",
        )
    with connection.transaction():
        connection.execute(SET_PATH)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Another process may have been here since the first look.
        version = _version(connection, oldest=oldest, newest=newest)
        scripts = [step.read_text("utf-8") for step in steps[version - oldest :]]
        if not version:
            _create_schema(connection)
            scripts = schema.split(";\n")
        for script in scripts:
            on_step()
            connection.execute(script.encode())
        if version < newest:
            last = scripts[-1] if version else schema
            usable_from = int(last.partition("\n")[0].removeprefix(_HEADER))
            connection.execute(
                "UPDATE discovery.schema_version SET version = %s, usable_from = %s",
                (newest, usable_from),
            )
    return max(version, newest)


def is_outdated(connection: Connection) -> bool:
    """Return whether `migrate` would change a database, and change nothing.

    Raises:
        RegistryError, psycopg.Error: As `migrate`.
    """
    newest, steps, _ = _versions(FOLDER)
    return _version(connection, oldest=newest - len(steps), newest=newest) < newest


def _versions(folder: Path) -> tuple[int, list[Path], str]:
    """Return the present version, the steps to it, and the tables of an empty database."""
    first, _, schema = (folder / "schema.sql").read_text("utf-8").partition("\n")
    return int(first.removeprefix(_VERSION)), sorted(folder.glob("[0-9]*.sql")), schema


def _version(connection: Connection, *, oldest: int, newest: int) -> int:
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
    if 0 < version < oldest:
        raise RegistryError(
            f"the database has version {version}; this program updates those from {oldest} on",
            hint="let an earlier version of the program update it first",
        )
    return int(version)


def _is_owner(connection: Connection) -> bool:
    """Return whether this role has the rights of the role that made the tables."""
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
