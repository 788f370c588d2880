"""The arguments of bubblewrap: a file system with nothing in it but what is granted."""

from __future__ import annotations

import os
from collections.abc import Iterator

from discovery_engine.upstream.stdio.sandbox.visible_files import (
    SETTINGS,
    SYSTEM,
    VisibleFiles,
    is_within,
    links_on_the_way,
)

FILTER_AT, ARGUMENTS_AT = 3, 4  # the first descriptors that a program does not have
_ALWAYS_THERE = (*SYSTEM, SETTINGS, "/proc", "/dev")


def bubblewrap_arguments(files: VisibleFiles, *, has_network: bool, cwd: str | None) -> list[str]:
    """Everything before the command."""
    # No `--new-session`: the reaper has made one, and a signal to its group reaches the program.
    # No `--die-with-parent`: SIGTERM ends bubblewrap at once, and the program would be killed while
    # it still handles the same signal. What is left is ended by the reaper.
    arguments = ["--unshare-all", "--cap-drop", "ALL"]
    arguments += ["--share-net"] if has_network else []
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - its own
    if os.geteuid() == 0:  # it could change switches of the kernel that run programs
        arguments += ["--remount-ro", "/proc"]
    for path in SYSTEM:
        arguments += _system_folder(path)
    arguments += ["--ro-bind", SETTINGS, SETTINGS]
    for path in files.private_settings:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - a string
        arguments += ["--tmpfs", path] if is_folder else ["--ro-bind", "/dev/null", path]
    for link, target in _missing_links(files).items():
        arguments += ["--symlink", target, link]
    for path in _outermost_first(files.read):
        arguments += ["--ro-bind-try", path, path]
    for path in _outermost_first(files.write):
        arguments += ["--bind-try", path, path]
    arguments += ["--seccomp", str(FILTER_AT), "--args", str(ARGUMENTS_AT)]
    return [*arguments, "--chdir", cwd, "--"] if cwd else [*arguments, "--"]


def _system_folder(path: str) -> Iterator[str]:
    if os.path.islink(path):  # noqa: PTH114 - a string
        yield from ("--symlink", os.readlink(path), path)  # noqa: PTH115
    elif os.path.isdir(path):  # noqa: PTH112
        yield from ("--ro-bind", path, path)


def _missing_links(files: VisibleFiles) -> dict[str, str]:
    """The links that paths lead through, but those in folders that are there anyway.

    They stay links: what is relative to them (`../lib`) means the folder that they lead to.
    """
    paths = (*files.read, *files.write)
    there = (*_ALWAYS_THERE, *map(os.path.realpath, paths))
    links = (found for path in paths for found in links_on_the_way(path))
    return {link: target for link, target in links if not is_within(link, there)}


def _outermost_first(paths: tuple[str, ...]) -> list[str]:
    """A folder that is mounted later would hide what is mounted in it."""
    return sorted(set(map(os.path.realpath, paths)), key=lambda path: (path.count("/"), path))
