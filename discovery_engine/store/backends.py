"""The back-ends of the registry, by the scheme of its URL.

    sqlite:////home/someone/.local/share/discovery/registry.db
    postgresql://gateway@db.example.com/tools?sslmode=verify-full
    memory:

The path of an SQLite file follows `sqlite:///` as it is; nothing in it is escaped. A back-end is
added by one entry in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from discovery_engine._util.digests import blake2b
from discovery_engine.errors import ConfigurationError, RegistryError
from discovery_engine.store.sqlite.database import sqlite_database
from discovery_engine.store.sqlite.decision_mark import has_decisions
from discovery_engine.store.sqlite.sqlite_reader import SqliteReader

if TYPE_CHECKING:
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.store.registry import Registry

_SQLITE = "sqlite:///"
UNKNOWN_DATABASE = "postgresql:"
"""A placeholder for the URL of a database of which even that is not known."""
_ALIASES = {"postgres": "postgresql"}


class BackendOpener(Protocol):
    def __call__(self, url: str, *, patience: float | None = None) -> Registry: ...


def open_registry(url: str, *, patience: float | None = None) -> Registry:
    """The registry at `url`; the caller closes it.

    Args:
        url: Where it is; see above.
        patience: The most seconds to wait for other processes before it can be read.

    Raises:
        ConfigurationError: If its driver is not installed.
        RegistryError: If there is no such back-end, if the registry cannot be opened, or if a newer
            version of the program made it.
    """
    return _opener(url)(url, patience=patience)


def open_reader(path: Path, *, patience: float) -> SqliteReader:
    """Open the part of a registry file that a read-only command needs; the caller closes it.

    Raises:
        RegistryError: As `open_registry`.
    """
    return SqliteReader(sqlite_database(path, patience=patience))


def open_fallback(url: str, error: RegistryError) -> Registry:
    """A registry for this process alone, in place of that at `url`, which raised `error`.

    What its owner decided is unknown, so nothing is accepted because it was not seen before; unless
    a file is known to hold no decision. New decisions are refused with the reason of `error`.
    """
    # Only needed where the registry is broken.
    from discovery_engine.store.memory import FallbackRegistry  # noqa: PLC0415

    is_unread = not url.startswith(_SQLITE) or has_decisions(_path(url))
    return FallbackRegistry(error.message, hint=error.hint, is_stand_in=True, is_unread=is_unread)


def sqlite_url(path: Path) -> str:
    return f"{_SQLITE}{path}"


def _opener(url: str) -> BackendOpener:
    scheme, _, _ = url.partition(":")
    if opener := BACKENDS.get(_ALIASES.get(scheme, scheme)):
        return opener
    kinds = ", ".join(f"`{name}:`" for name in BACKENDS)
    raise RegistryError(
        f"there is no registry of the kind {scheme!r}", hint=f"its URL begins with one of {kinds}"
    )


def _path(url: str) -> Path:
    path = url.removeprefix(_SQLITE)
    if path in ("", url):
        raise RegistryError(
            f"the registry {url!r} has no path", hint=f"write `{_SQLITE}` before the path of a file"
        )
    return Path(path)


def _open_sqlite(url: str, *, patience: float | None = None) -> Registry:
    # A command that only reads what was saved needs `open_reader` alone.
    from discovery_engine.store.sqlite.sqlite_registry import open_sqlite  # noqa: PLC0415

    return open_sqlite(_path(url), patience=patience)


def _open_memory(
    url: str,  # noqa: ARG001 - there is only one kind
    *,
    patience: float | None = None,  # noqa: ARG001 - there is nothing to wait for
) -> Registry:
    from discovery_engine.store.memory import MemoryRegistry  # noqa: PLC0415 - as above

    return MemoryRegistry()


def _open_postgres(
    url: str,
    *,
    patience: float | None = None,
) -> Registry:
    return open_database(url, timeout=patience)


def open_database(
    url: str, *, max_connections: int | None = None, timeout: float | None = None
) -> PostgresRegistry:
    """A registry in PostgreSQL; it is reached with its first use.

    Raises:
        ConfigurationError: If the driver is not installed. This is no outage, in which something
            else takes the place of the database.
        RegistryError: If the URL is no address of a database.
    """
    # Most registries are files, and the driver takes longer to load than all else.
    from discovery_engine.store.postgres.database_url import DatabaseAddress

    try:
        address = DatabaseAddress.parse(url)
        from discovery_engine.store.postgres import postgres_database
        from discovery_engine.store.postgres.postgres_registry import (
            PostgresRegistry,
        )
    except ImportError as error:
        from discovery_engine.errors.extras import extra_missing  # noqa: PLC0415 - seldom needed

        problem = extra_missing("postgres", "a registry in PostgreSQL", error.name or "psycopg")
        raise ConfigurationError([problem]) from error
    database = postgres_database.PostgresDatabase(
        address,
        max_connections=max_connections or postgres_database.MAX_CONNECTIONS,
        timeout=timeout or postgres_database.TIMEOUT,
    )
    return PostgresRegistry(database)


def open_shared(remote: PostgresRegistry, path: Path, *, patience: float) -> Registry:
    """A database with its copy on this machine; `path` is that of the registry of the data folder.

    Raises:
        RegistryError: If the copy cannot be opened.
    """
    from discovery_engine.store.postgres.shared_registry import SharedRegistry
    from discovery_engine.store.sqlite.sqlite_registry import open_sqlite  # noqa: PLC0415 - as above

    folder = copy_folder(path, remote.database.address.name)
    # What is stored for webhooks is in the database alone, where every gateway sends it from.
    open_file = partial(open_sqlite, patience=patience, has_webhooks=False)
    local = open_file(path)  # makes the data folder, for its owner alone
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = open_file(folder / path.name)
        return SharedRegistry(remote, copy, local, folder=folder)
    except BaseException:
        local.close()
        raise


def copy_folder(path: Path, name: str) -> Path:
    """The folder of a database's copy; `path` is that of the registry of the data folder."""
    return path.parent / "shared" / blake2b(name.encode(), digest_size=8).hexdigest()


BACKENDS: Mapping[str, BackendOpener] = MappingProxyType(
    {"sqlite": _open_sqlite, "postgresql": _open_postgres, "memory": _open_memory}
)
