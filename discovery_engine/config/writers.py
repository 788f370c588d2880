"""Who else may write to a file: by itself, or by putting another in its place.

As strict as sshd is with keys: the file and every folder above it must belong to the user or to
root, and nobody else may write to them. A group that only the user is in is no one else, for with
umask 002 everything is writable to that; and in a folder such as `/tmp` nobody can replace what
belongs to another. Root is not asked whose a file is: in a container it is seldom its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def open_to_others(path: str) -> str | None:
    """The file, or the folder above it, that others may write to; None if there is none."""
    if os.name != "posix":
        return None
    lexical, real = os.path.abspath(path), os.path.realpath(path)  # noqa: PTH100 - a link counts too
    for start in dict.fromkeys((lexical, real)):
        if found := next(_open_from(start), None):
            return found
    return None


def _open_from(start: str) -> Iterator[str]:
    inside: os.stat_result | None = None
    for place in (start, *map(str, Path(start).parents)):
        try:
            info = os.stat(place)  # noqa: PTH116 - as cheap as can be: every start does this
        except OSError:
            yield place
            return
        if may_others_write(info, inside, user=os.geteuid()):
            yield place
        inside = info


def may_others_write(info: os.stat_result, inside: os.stat_result | None, *, user: int) -> bool:
    """Whether anybody but a user and root may write to a file, or exchange what is in a folder.

    Args:
        info: The status of the file or the folder.
        inside: The status of what counts in the folder; None for a file.
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
    """Whether a group is the user's own, as many systems give each user one, or root's."""
    if group == 0:
        return True
    import grp  # noqa: PLC0415 - not everywhere there, and seldom needed
    import pwd  # noqa: PLC0415

    try:
        known, own = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    is_own = group == own.pw_gid and known.gr_name == own.pw_name
    return is_own and set(known.gr_mem) <= {own.pw_name}
