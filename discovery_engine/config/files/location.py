"""Finds the configuration: the first existing file of these places.

    the path that was given        must exist
    $DISCOVERY_CONFIG              must exist
    ./.discovery/discovery.yaml
    ./discovery.yaml
    <user's configuration folder>/discovery/discovery.yaml

Without any of them, the built-in defaults are used. The third and the fourth are *discovered*, not
named: another person may have written them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.config.files.data_folder import user_folder

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings

VARIABLE = "DISCOVERY_CONFIG"
FILE_NAME = "discovery.yaml"
LOCK_SUFFIX = ".lock"
CASE_FILE = "discovery-queries.yaml"
"""The file beside the configuration that has queries with their right tools."""

_DEFAULTS = "defaults"
_NAME = "name:"


class Location(Struct, frozen=True):
    path: str | None
    """The absolute path; None for the built-in defaults."""
    named_by: str = ""
    """The reason for the file, in words; empty if it was found by searching."""
    is_discovered: bool = False
    """True if it was found in the working directory, without being named."""
    absent: tuple[str, ...] = ()
    """The earlier places without a file, in the order of the search."""

    @property
    def near_misses(self) -> tuple[str, ...]:
        """The absent places with the suffix `.yml`, which a file may have by mistake."""
        return tuple(f"{place.removesuffix('.yaml')}.yml" for place in self.absent)


def locate(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Location:
    """Search for the configuration; a named file is returned without checking that it exists.

    If None, `environ`, `cwd` and `home` are those of the process.
    """
    environ = os.environ if environ is None else environ
    here = Path(cwd) if cwd else Path.cwd()
    if path is not None:
        return Location(_absolute(path, here), "it was given as the configuration")
    if named := environ.get(VARIABLE):
        return Location(_absolute(named, here), f"${VARIABLE} names it")
    places = [str(folder / FILE_NAME) for folder in (here / ".discovery", here)]
    places.append(user_config_path(environ, home=home))
    index = next((i for i, place in enumerate(places) if os.path.exists(place)), None)  # noqa: PTH110 - False where Path.exists raises
    if index is None:
        return Location(None, absent=tuple(places))
    *_, own = places
    return Location(places[index], is_discovered=places[index] != own, absent=tuple(places[:index]))


def user_config_path(
    environ: Mapping[str, str], *, home: str | os.PathLike[str] | None = None
) -> str:
    """Return the path of the user's own configuration, which is used in every folder."""
    return str(_user_folder(environ, home) / FILE_NAME)


def scope_of(path: str | os.PathLike[str] | None) -> str:
    """Return the name under which data of this configuration is stored."""
    return _DEFAULTS if path is None else os.path.realpath(path)


def decision_scope(settings: Settings) -> str:
    """Return the scope of decisions: the name of the configuration, or its path."""
    return f"{_NAME}{settings.name}" if settings.name else scope_of(settings.path)


def is_name(scope: str) -> bool:
    """Return whether a scope is the name of a configuration, not a path."""
    return scope.startswith(_NAME)


def catalog_key(path: str | os.PathLike[str] | None, *, is_untrusted: bool, frozen: bool) -> str:
    """Return the key of the stored catalog.

    A file can have several: its servers and tools depend on whether it is trusted, and on whether
    the lock file is in force.
    """
    return scope_of(path) + "\n(found)" * is_untrusted + "\n(frozen)" * frozen


def catalog_key_of(settings: Settings) -> str:
    """Return the key of the stored catalog of these settings.

    In a database it contains the configuration's name, if it has one, because the path of the same
    configuration may differ between machines.
    """
    own = own_catalog_key_of(settings)
    if not (settings.registry.url and settings.name):
        return own
    return f"{_NAME}{settings.name}" + own.removeprefix(scope_of(settings.path))


def own_catalog_key_of(settings: Settings) -> str:
    """Return the key on this machine, where a start knows only the path."""
    return catalog_key(
        settings.path, is_untrusted=settings.is_untrusted_origin, frozen=settings.frozen
    )


def lock_path(path: str | os.PathLike[str]) -> str:
    """Return the path of the lock file: `discovery.lock` beside `discovery.yaml`."""
    return str(Path(path).with_suffix(LOCK_SUFFIX))


def _absolute(path: str | os.PathLike[str], here: Path) -> str:
    return os.path.abspath(here / os.path.expanduser(path))  # noqa: PTH100, PTH111 - keeps links


def _user_folder(environ: Mapping[str, str], home: str | os.PathLike[str] | None) -> Path:
    if home is not None and not environ.get("XDG_CONFIG_HOME"):
        return Path(home) / ".config" / "discovery"
    return Path(user_folder("XDG_CONFIG_HOME", "~/.config", environ))
