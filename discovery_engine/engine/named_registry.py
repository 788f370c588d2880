"""The registry that a configuration names, for commands that look at it or copy it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import Settings
from discovery_engine.engine.restore import registry_path
from discovery_engine.engine.shared_store import named_database
from discovery_engine.errors import Diagnostic, RegistryError, RegistryUnavailableError
from discovery_engine.secrets.references import split
from discovery_engine.store.gateway_records import STATE_KEY
from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite

if TYPE_CHECKING:
    from discovery_engine.store.postgres.database_state import DatabaseState
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry

_SQLITE = "sqlite:///"
_COPY_TIMEOUT = 60.0  # seconds of one operation
ON_THIS_MACHINE = (
    "call log and metrics",
    "the gateway's own token, and tokens that were made before there was a database",
    "stored secrets",
    "copies of marketplaces and packages",
)
"""Data that no database keeps, whichever is named."""


_NEXT_STEPS = {
    "password authentication failed": "correct the role or its password",
    "no password supplied": "add the password of the role",
    "resolve host": "correct the name of the host",
    "refused": "start the database, or correct its host and port",
    "read-only": "name all hosts, with `target_session_attrs=read-write`",
    "timeout": "see whether the database runs and this machine may reach it, or correct its host",
    "does not exist": "create it, or correct its name",
}
"""By what libpq or the server writes."""
_ANOTHER_STEP = "see whether the database runs, and whether this machine may use it"


class RegistryReport(Struct, frozen=True):
    """The place and the state of a configuration's registry."""

    place: str
    """The path of its file, or its address without a password."""
    database: DatabaseState | None = None
    """None for a file, and for tables that are outdated."""
    is_outdated: bool = False
    """True if the tables are missing, or of an older version of the program."""
    ignored: tuple[Diagnostic, ...] = ()
    """Registry settings of the configuration that do not count, as the file is not trusted."""


def report_on(
    settings: Settings,
    *,
    data_dir: str | Path | None,
    environ: Mapping[str, str],
    is_updated: bool = True,
) -> RegistryReport:
    """Reach the registry; `is_updated` brings a database up to date.

    Raises:
        RegistryError: If it cannot be used.
    """
    path = registry_path(data_dir, environ)
    if not settings.registry.url:
        if path.exists():
            open_sqlite(path).close()
        of_registry = (
            warning for warning in settings.warnings if warning.subject.startswith("registry.")
        )
        return RegistryReport(str(path), ignored=tuple(of_registry))
    with (
        closing(named_database(settings, path, environ)) as registry,
        _explained(f"`registry.url` in discovery.yaml, `{settings.registry.url}`"),
    ):
        place = registry.database.address.name
        if not is_updated and registry.database.is_outdated():
            return RegistryReport(place, is_outdated=True)
        return RegistryReport(place, registry.state(has_secret=bool(environ.get(STATE_KEY))))


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Say what to do about a database that cannot be reached, and where its address stands."""
    try:
        yield
    except RegistryUnavailableError as error:
        steps = (step for words, step in _NEXT_STEPS.items() if words in error.message)
        hint = f"{next(steps, _ANOTHER_STEP)}; its address is that of {address}"
        raise RegistryUnavailableError(error.message, hint=hint) from error


def open_named(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> PostgresRegistry | SqliteRegistry:
    """The registry that a configuration names, to be copied; the caller closes it.

    Raises:
        RegistryError: If it cannot be opened.
    """
    path = registry_path(data_dir, environ)
    if not settings.registry.url:
        return open_sqlite(path)
    return named_database(_patient(settings), path, environ)


def open_target(
    url: str, settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Registry:
    """The registry to copy to, at `sqlite:///PATH` or at the address of a database.

    The address may be a reference. The caller closes the registry.

    Raises:
        RegistryError: If it cannot be opened, or the address holds a password.
    """
    if url.startswith(_SQLITE) and (path := url.removeprefix(_SQLITE)):
        return open_sqlite(path)
    literal = "".join(part for part in split(url) if isinstance(part, str))
    before_host, at, _ = literal.partition("://")[2].rpartition("@")
    if (at and before_host.partition(":")[2]) or "password=" in literal:
        raise RegistryError(
            "the address holds a password, which others can see in the list of processes",
            hint="`discovery registry copy --to '${DATABASE_URL}'`, with that variable set",
        )
    named = replace(settings, registry=replace(settings.registry, url=url))
    registry = named_database(_patient(named), registry_path(data_dir, environ), environ)
    try:
        with _explained(f"`--to`, `{url}`"):
            registry.database.check()
    except RegistryError:
        registry.close()
        raise
    return registry


def _patient(settings: Settings) -> Settings:
    """Return the settings with time to read all decisions, or all tools, of a registry at once.

    100,000 decisions take 2 s, and no one else waits for a command.
    """
    timeout = max(settings.registry.timeout, _COPY_TIMEOUT)
    return replace(settings, registry=replace(settings.registry, timeout=timeout))
