"""Finds the configuration, reads it, and adds the servers of its sources."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.config.document.yaml_reader import SIZE_LIMIT
from discovery_engine.config.files.inputs import observe, read_input
from discovery_engine.config.files.location import FILE_NAME, Location, locate, lock_path
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.loading.untrusted import (
    is_untrusted_origin,
    permission_warnings,
    restrict,
)
from discovery_engine.config.settings import InputFile, Settings, with_default_sandbox
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.secrets.resolver import EnvironmentResolver

if TYPE_CHECKING:
    from discovery_engine.config.sources import SourceResult


def load_settings(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
    content: bytes | None = None,
) -> Settings:
    """Load the configuration at `path`, or the one that is found, with the servers of its sources.

    No server is started, and no reference is resolved. Broken server entries and unreadable sources
    are in `warnings`. A file of untrusted origin is restricted; see `config.loading.untrusted`.

    Args:
        path: The file; None to search for it.
        environ: The environment; None for that of the process, as with `cwd` and `home`.
        cwd: The working directory.
        home: The home folder.
        content: Content to load in place of the file's own; the file must exist.

    Raises:
        ConfigurationError: If a named file is missing, or the configuration is invalid; it lists
            every problem.
    """
    environ = os.environ if environ is None else environ
    place = locate(path, environ=environ, cwd=cwd, home=home)
    absent = tuple(map(observe, (*place.absent, *place.near_misses)))
    misnamed = tuple(_misnamed(file.path) for file in absent if file.digest)
    if place.path is None:
        return Settings(inputs=absent, warnings=misnamed)
    present, file = _read(place, place.path)
    settings = parse_settings(present if content is None else content, file=place.path)
    settings = replace(settings, inputs=(*absent, file), warnings=(*misnamed, *settings.warnings))
    settings = _with_sources(settings, environ, cwd, home)
    if not is_untrusted_origin(place):
        return settings
    return restrict(replace(settings, warnings=(*permission_warnings(place), *settings.warnings)))


def resolve_settings(
    config: str | os.PathLike[str] | Settings | None,
    environ: Mapping[str, str],
    *,
    frozen: bool,
    content: bytes | None = None,
) -> Settings:
    """Return the given settings, or load them; with the lock file in force if `frozen`.

    For `content` see `load_settings`.

    Raises:
        ConfigurationError: See `load_settings`; also for `content` with given settings.
    """
    if isinstance(config, Settings):
        if content is not None:
            message = "is not what is in force: the settings were given by the program"
            raise _unusable(
                config.path or "configuration", message, "open the engine with its path"
            )
        settings = with_default_sandbox(config)
    else:
        settings = load_settings(config, environ=environ, content=content)
    return with_lock_file(settings) if frozen else settings


def require_same_file(before: Settings, after: Settings) -> None:
    """Check that the file in use still exists, and that no other file now precedes it.

    Raises:
        ConfigurationError: If not; only a restart changes to another file.
    """
    if before.path in (None, after.path):
        return
    message = f"{after.path} would take its place" if after.path else "it is gone"
    raise _unusable(before.path, message, "start again to use another file")


def with_lock_file(settings: Settings) -> Settings:
    """Return the settings with the lock file in force, and among the observed files."""
    files = () if settings.path is None else (observe(lock_path(settings.path)),)
    return replace(settings, frozen=True, inputs=(*settings.inputs, *files))


def _read(place: Location, path: str) -> tuple[bytes, InputFile]:
    try:
        return read_input(path, limit=SIZE_LIMIT)
    except FileNotFoundError as error:
        hint = f"{place.named_by}; `discovery init` writes one"
        raise _unusable(path, "there is no such file", hint) from error
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}", place.named_by) from error


def _misnamed(path: str) -> Diagnostic:
    message = f"{Path(path).name} is not read: rename it to {FILE_NAME}"
    return Diagnostic("CONFIG_MISNAMED", message, "or name it with `--config`", origin=Origin(path))


def _unusable(path: str, message: str, hint: str) -> ConfigurationError:
    return ConfigurationError.of_file("CONFIG_UNREADABLE", path, message, hint)


def _with_sources(
    settings: Settings,
    environ: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    home: str | os.PathLike[str] | None,
) -> Settings:
    if not settings.sources:
        return settings
    from discovery_engine.config.loading.merging import merge  # noqa: PLC0415 - as below

    results = read_sources(settings, environ=environ, cwd=cwd, home=home)
    return merge(settings, results, EnvironmentResolver(environ))


def read_sources(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> list[SourceResult]:
    """Read each of the `sources`, in their order; for `cwd` and `home` see `load_settings`."""
    # Imported late: it reads every client's format, and most configurations have no sources.
    from discovery_engine.config.sources import read_source  # noqa: PLC0415

    here = Path(cwd) if cwd else Path.cwd()
    base = Path(settings.path).parent if settings.path else here
    return [
        read_source(
            source,
            environ=environ,
            home=Path(home) if home else Path.home(),
            cwd=base if source.path else here,
            platform=sys.platform,
        )
        for source in settings.sources
    ]
