"""Checks that nobody else can write to a file, or replace it.

The check is as strict as that of sshd for keys: the file and every folder above it must belong to
the user or root, and must not be writable by others. Two cases are safe: a group whose only member
is the user, which may write to everything with umask 002, and a folder with the sticky bit, such as
`/tmp`, where only the owner of a file can replace it. Root may use files of any owner, because in
a container they are seldom root's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import cache

_MOST_LINKS = 40  # the limit of Linux


def writable_by_others(path: str) -> str | None:
    """Return the file, or the folder above it, that others may write to; None if there is none.

    A place that cannot be checked counts as writable. Without POSIX permissions the result is None.
    """
    if os.name != "posix":
        return None
    try:
        return next(_open_places(os.path.join(os.getcwd(), path)), None)  # noqa: PTH109, PTH118
    except OSError as error:
        return str(error.filename or path)


def _open_places(path: str) -> Iterator[str]:
    """Yield the places on the way to a file that others may write to, links resolved stepwise.

    Raises:
        OSError: If the status of a place cannot be read.
    """
    folder, names, links = "/", path.split("/")[::-1], 0
    user, info = os.geteuid(), os.stat("/")  # noqa: PTH116 - as cheap as can be, each start does it
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            folder = os.path.dirname(folder)  # noqa: PTH120
            info = os.stat(folder)  # noqa: PTH116
            continue
        place = os.path.join(folder, name)  # noqa: PTH118
        around, info = info, os.lstat(place)
        if may_others_write(around, info, user=user):
            yield folder
        if not stat.S_ISLNK(info.st_mode):
            folder = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        target = os.readlink(place)  # noqa: PTH115
        names += target.split("/")[::-1]
        folder = "/" if target.startswith("/") else folder
        info = os.stat(folder)  # noqa: PTH116
    if may_others_write(info, None, user=user):
        yield folder


def may_others_write(info: os.stat_result, inside: os.stat_result | None, *, user: int) -> bool:
    """Return whether users but `user` and root may write to a file, or replace files of a folder.

    Args:
        info: The status of the file or folder.
        inside: The status of the relevant file in the folder; None if `info` is of a file.
        user: The user's id.
    """
    owners = {user, 0}
    if user and info.st_uid not in owners:
        return True
    is_sticky = bool(info.st_mode & stat.S_ISVTX) and inside is not None
    if is_sticky and inside is not None and (not user or inside.st_uid in owners):
        return False
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private(info.st_gid, user)


@cache
def _is_private(group: int, user: int) -> bool:
    """Return whether a group is root's, or the user's private group."""
    if group == 0:
        return True
    import grp  # noqa: PLC0415 - missing on some systems, and seldom needed
    import pwd  # noqa: PLC0415

    try:
        group_entry, own = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    is_own = group == own.pw_gid and group_entry.gr_name == own.pw_name
    return is_own and set(group_entry.gr_mem) <= {own.pw_name}
