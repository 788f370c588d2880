"""The registry that a configuration names, for commands that look at it or copy it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import RegistrySettings, Settings
from discovery_engine.errors import RegistryError
from discovery_engine.registry.postgres.database_state import DatabaseState, state_of
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.registry.transfer import PortableRegistry
from discovery_engine.runtime.restore import registry_path
from discovery_engine.runtime.shared_store import named_database
from discovery_engine.secrets.references import split

_SQLITE = "sqlite:///"
ON_THIS_MACHINE = (
    "call log and metrics",
    "tokens of clients",
    "stored secrets",
    "copies of marketplaces and packages",
    "results that are read in pages",
)
"""What no database keeps, whichever is named."""


class RegistryReport(Struct, frozen=True):
    """Where the registry of a configuration is."""

    place: str
    """The path of its file, or its address without a password."""
    database: DatabaseState | None = None
    """None for a file."""


def report_on(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> RegistryReport:
    """Reach the registry; a database is brought up to date by that.

    Raises:
        RegistryError: If it cannot be used.
    """
    path = registry_path(data_dir, environ)
    if not settings.registry.url:
        if path.exists():
            open_sqlite(path).close()
        return RegistryReport(str(path))
    registry = named_database(settings, path, environ)
    try:
        name = registry.database.address.name
        return RegistryReport(name, state_of(registry.database))
    finally:
        registry.close()


def open_named_database(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> PostgresRegistry:
    """The database of a configuration, whose roles are to be shown or changed; close it.

    Raises:
        RegistryError: If its registry is a file, or the address cannot be used.
    """
    if not settings.registry.url:
        raise RegistryError(
            "the registry is a file, which has no roles",
            hint='name a database in discovery.yaml: `registry: {url: "${DATABASE_URL}"}`',
        )
    return named_database(settings, registry_path(data_dir, environ), environ)


def open_named(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> PortableRegistry:
    """The registry of a configuration itself, without a copy of it; the caller closes it.

    Raises:
        RegistryError: If it cannot be opened.
    """
    path = registry_path(data_dir, environ)
    return named_database(settings, path, environ) if settings.registry.url else open_sqlite(path)


def open_target(
    url: str, settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> PortableRegistry:
    """The registry at `sqlite:///PATH` or at the address of a database, which may be a reference.

    Raises:
        RegistryError: If it cannot be opened, or the address holds a password.
    """
    if url.startswith(_SQLITE) and (path := url.removeprefix(_SQLITE)):
        return open_sqlite(path)
    written = "".join(part for part in split(url) if isinstance(part, str))
    before_host, at, _ = written.partition("://")[2].rpartition("@")
    if (at and before_host.partition(":")[2]) or "password=" in written:
        raise RegistryError(
            "the address holds a password, which others can see in the list of processes",
            hint="`discovery registry copy --to '${DATABASE_URL}'`, with that variable set",
        )
    named = replace(settings, registry=RegistrySettings(url))
    return named_database(named, registry_path(data_dir, environ), environ)
