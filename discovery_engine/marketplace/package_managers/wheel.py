"""What a wheel has, read from its archive; nothing of it is unpacked to disk or run."""

from __future__ import annotations

import configparser
import re
import zipfile
from pathlib import Path

from discovery_engine.errors import PackageManagerError

_LARGEST = 1 << 20  # bytes of `entry_points.txt`
_ENTRY_POINTS = re.compile(r"[^/]+\.dist-info/entry_points\.txt")


def programs_of_wheel(folder: Path) -> tuple[str, ...]:
    """The names of the programs of the one wheel in a folder.

    Raises:
        PackageManagerError: If there is none, or it cannot be read.
    """
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise PackageManagerError("no wheel was downloaded")
    try:
        text = _entry_points(wheel)
        points = _CaseSensitive(delimiters=("=",), interpolation=None, strict=False)
        points.read_string(text)
    except (zipfile.BadZipFile, configparser.Error, NotImplementedError, RuntimeError) as error:
        raise PackageManagerError(f"{wheel.name} cannot be read: {error}") from error
    return tuple(points["console_scripts"]) if points.has_section("console_scripts") else ()


class _CaseSensitive(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _entry_points(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not _ENTRY_POINTS.fullmatch(member.filename):
                continue
            if member.file_size > _LARGEST:  # what is read is at most what the archive claims
                raise PackageManagerError(f"the entry points of {wheel.name} are too large")
            return archive.read(member).decode("utf-8", "replace")
    return ""
