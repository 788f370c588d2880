"""Unpacks an archive of a stranger: files and folders below one folder, and nothing else.

The members are checked before the first is written, and what is written is counted: an archive
may claim any size.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from discovery_engine._util.text import quoted
from discovery_engine.errors import InstallFailedError, InstallRefusedError

LARGEST = 1024 * 1024 * 1024
"""Bytes of all files together; a bundle with its node_modules has some 100 MB."""
_MEMBERS = 50_000
_RATIO = 200
"""Times that a whole archive may grow; texts grow tenfold."""
_ALWAYS = 16 * 1024 * 1024  # bytes that are unpacked whatever the ratio
_DEPTH = 40
_NAME = 255  # bytes of each step of a path
_PIECE = 1 << 20
_ODD = re.compile(r"[\x00-\x1f\x7f\\:]")
_DEVICES = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")
_ENCRYPTED = 0x1


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive whose members may all be unpacked.

    Raises:
        InstallRefusedError: If one may not, or if it is no archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path.stat().st_size)
            yield archive
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise InstallRefusedError(f"the bundle is no usable archive: {error}") from error


def read_member(archive: zipfile.ZipFile, name: str, *, limit: int) -> bytes | None:
    """A small member; None if it is not there.

    Raises:
        InstallRefusedError: If it is longer than `limit`.
    """
    try:
        member = archive.getinfo(name)
    except KeyError:
        return None
    with archive.open(member) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InstallRefusedError(f"{quoted(name)} in the bundle is longer than {limit:,} bytes")
    return content


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write all members below a folder that is empty, each with no more rights than it needs.

    Raises:
        InstallRefusedError: If the archive holds more than it claims.
        InstallFailedError: If the disk is full, or the folder cannot be written.
    """
    left = LARGEST
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for member in archive.infolist():
            place = folder / member.filename
            if member.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            left = _write(archive, member, place, min(left, member.file_size))
    except OSError as error:
        raise InstallFailedError(
            f"the bundle cannot be unpacked: {error.strerror or error}",
            hint="check the space on the disk of the data folder",
        ) from error


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path, limit: int) -> int:
    """Write one member of at most `limit` bytes; returns how many more may be written."""
    mode = 0o700 if (member.external_attr >> 16) & stat.S_IXUSR else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    written = 0
    with archive.open(member) as packed, os.fdopen(os.open(place, flags, mode), "wb") as file:
        while piece := packed.read(_PIECE):
            written += len(piece)
            if written > limit:
                raise InstallRefusedError(f"{quoted(member.filename)} is longer than it claims")
            file.write(piece)
    return LARGEST - written


def _check(archive: zipfile.ZipFile, packed_size: int) -> None:
    members = archive.infolist()
    if len(members) > _MEMBERS:
        raise InstallRefusedError(f"the bundle has {len(members):,} files; {_MEMBERS:,} may be")
    size = sum(member.file_size for member in members)
    if size > LARGEST or size > max(_ALWAYS, _RATIO * packed_size):
        raise InstallRefusedError(
            f"the bundle would grow from {packed_size:,} to {size:,} bytes, which is refused"
        )
    seen: set[str] = set()
    for member in members:
        if reason := _refusal(member):
            raise InstallRefusedError(f"the bundle holds {quoted(member.filename)}, {reason}")
        name = member.filename.rstrip("/").casefold()
        if name in seen:
            raise InstallRefusedError(f"the bundle holds {quoted(member.filename)} twice")
        seen.add(name)


def _refusal(member: zipfile.ZipInfo) -> str:
    """Why a member is not unpacked; empty if it is."""
    name = member.orig_filename
    steps = PurePosixPath(name).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    if not steps or name.startswith("/") or ".." in steps or _ODD.search(name):
        return "which leads out of its folder"
    if len(steps) > _DEPTH or any(len(os.fsencode(step)) > _NAME for step in steps):
        return "whose path is too long"
    if any(_DEVICES.fullmatch(step) for step in steps):
        return "which is the name of a device on Windows"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "which is a link or a device"
    if member.flag_bits & _ENCRYPTED:
        return "which is encrypted"
    return ""
