"""The database that a configuration names as its registry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.config.settings import Settings
from discovery_engine.errors import RegistryError
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import resolve
from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
from discovery_engine.store.backends import open_database, open_shared

if TYPE_CHECKING:
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.store.registry import Registry


def open_shared_store(
    settings: Settings, path: Path, environ: Mapping[str, str], *, patience: float
) -> Registry:
    """The database of `settings.registry`, with its copy on this machine.

    Args:
        settings: With a `registry.url`.
        path: Of the registry of the data folder.
        environ: What references are resolved from.
        patience: The most seconds to wait for other processes on this machine.

    Raises:
        ConfigurationError: If the driver is not installed.
        RegistryError: If the address has no value, or is none; never because the database does not
            answer.
    """
    remote = named_database(settings, path, environ)
    return open_shared(remote, path, patience=patience)


def named_database(settings: Settings, path: Path, environ: Mapping[str, str]) -> PostgresRegistry:
    """The database alone.

    Raises:
        ConfigurationError, RegistryError: As `open_shared_store`.
    """
    named = settings.registry
    folder = os.path.dirname(settings.path) if settings.path else None  # noqa: PTH120 - as text
    try:
        url = resolve(named.url, StoredSecretResolver(environ, path.parent), base_dir=folder)
    except (UnsetReference, MalformedReferenceError) as error:
        raise RegistryError(
            f"`registry.url` has no value: {error}",
            hint="`export DATABASE_URL=postgresql://USER:PASSWORD@HOST/DATABASE`, or store what it "
            "refers to with `discovery secrets set`",
        ) from error
    return open_database(url, max_connections=named.max_connections, timeout=named.timeout)


def gateway_database(
    settings: Settings, path: Path, environ: Mapping[str, str]
) -> PostgresRegistry | None:
    """The database that gateways with these settings share; None if there is none.

    Raises:
        ConfigurationError, RegistryError: As `open_shared_store`.
    """
    named = settings.registry
    is_shared = named.url and settings.cache.enabled
    return named_database(settings, path, environ) if is_shared else None
