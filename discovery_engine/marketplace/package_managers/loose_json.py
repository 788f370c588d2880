"""A package as its manager describes it, in JSON whose members may have any type.

What is not as expected is read as empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct


class PublishedPackage(Struct, frozen=True):
    """One version of a package."""

    name: str
    version: str
    versions: tuple[str, ...] = ()
    """The newest first; of Python packages those that are not yanked."""
    description: str = ""
    keywords: tuple[str, ...] = ()
    publisher: str = ""
    repository: str = ""
    homepage: str = ""
    withdrawn: str = ""
    """Why this version is deprecated or yanked, if it is."""
    integrity: str = ""
    """`sha512-…` of npm; `sha256:…` of the wheel that would be installed here."""
    published: Mapping[str, float] = {}
    """When each version was published, as Unix time in seconds, as far as it is known."""
    programs: Mapping[str, str] = {}
    """Of npm: the names of its programs, and the file of each."""
    has_install_scripts: bool = False
    """True if installing the package runs scripts of its author."""

    @property
    def program(self) -> str:
        """The program that `npx PACKAGE` runs; empty if it has none, or cannot choose."""
        unscoped = self.name.rpartition("/")[2]
        if unscoped not in self.programs and len(set(self.programs.values())) == 1:
            return next(iter(self.programs))
        return unscoped if unscoped in self.programs else ""


def object_of(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def text_of(given: Any) -> str:
    return given if isinstance(given, str) else ""


def texts_of(given: Any) -> tuple[str, ...]:
    """The strings of a list; a lone string is a list of one."""
    if isinstance(given, str):
        return (given,)
    return tuple(text for text in given if isinstance(text, str)) if isinstance(given, list) else ()


def unix_time(given: Any) -> float:
    """Return an ISO 8601 date as Unix time in seconds; 0 if it is not a date."""
    try:
        date = given if isinstance(given, datetime) else datetime.fromisoformat(text_of(given))
        return date.timestamp()
    except (ValueError, OverflowError):
        return 0.0
