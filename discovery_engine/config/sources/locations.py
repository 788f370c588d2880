"""Where a client's files are on this machine: the table's paths with their folders filled in.

Files are looked at by their status only; nothing is opened here. Folders come in as arguments,
so that every platform's layout can be laid out under any folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from discovery_engine.config.sources.client_table import (
    ClientRow,
    FileSpec,
    Layout,
    Pointer,
    Scope,
    load_table,
)

_ROOT = re.compile(r"\{(\w+)\}")
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_MOST_PARENTS = 32
_MOST_MATCHES = 64  # files that one `*` may stand for


class FileCandidate(Struct, frozen=True):
    """A file of a client: one that is there, or `exists` is false."""

    path: Path
    spec: FileSpec
    project: Path
    """The project folder that the file belongs to; the working folder for a user's file."""
    exists: bool = True

    @property
    def scope(self) -> Scope:
        return self.spec.scope


class FileLocator(Struct, frozen=True, dict=True):
    environ: Mapping[str, str]
    home: Path
    cwd: Path
    layout: Layout

    @cached_property
    def projects(self) -> tuple[Path, ...]:
        """The working folder and those above it up to the repository's root, if it is in one."""
        upwards = (self.cwd, *self.cwd.parents)[:_MOST_PARENTS]
        for depth, folder in enumerate(upwards):
            if (folder / ".git").exists():
                return upwards[: depth + 1]
        return upwards[:1]

    def candidates(self, client: ClientRow) -> Iterator[FileCandidate]:
        """The client's files, strongest first, with those that do not exist.

        A file that is reached in several ways comes once, as the user's own if it is one.
        """
        places = [*self._places(client)]
        own = {_identity(place) for place in places if place.exists and place.scope != "project"}
        identities: set[tuple[str, tuple[Pointer, ...]]] = set()
        for place in places:
            identity = _identity(place)
            is_again = identity in identities or (place.scope == "project" and identity in own)
            if not (place.exists and is_again):
                identities.add(identity)
                yield place

    def _places(self, client: ClientRow) -> Iterator[FileCandidate]:
        for spec in client.files:
            templates = spec.paths.get(self.layout, ())
            if spec.scope == "project":
                yield from self._nearest(spec, templates)
            else:
                paths = (self._path(template) for template in templates)
                yield from _first(spec, paths, self.cwd)

    def _nearest(self, spec: FileSpec, templates: tuple[str, ...]) -> Iterator[FileCandidate]:
        for project in self.projects:
            for place in _first(spec, (project / template for template in templates), project):
                yield place
                if place.exists:
                    return

    def resolve_path(self, path: str) -> Path:
        """A path as an owner writes it: from the home folder, from the working folder, or whole."""
        return self.home / path[2:] if path.startswith("~/") else self.cwd / path

    def _path(self, template: str) -> Path:
        return self.cwd / _ROOT.sub(self._root, template)

    def _root(self, match: re.Match[str]) -> str:
        folders = load_table().roots[match[1]]
        template = folders.get(self.layout, folders["any"])
        text = _VARIABLE.sub(lambda m: self.environ.get(m[1]) or m[2], template)
        return str(self.home) + text[1:] if text.startswith("~") else text


def layout_of(platform: str) -> Layout:
    """The layout of a `sys.platform`, or of a layout's own name."""
    if platform in {"windows", "win32", "cygwin"}:
        return "windows"
    return "darwin" if platform == "darwin" else "linux"


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False if its status cannot be read."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - ValueError included below
    except (OSError, ValueError):
        return False


def _identity(place: FileCandidate) -> tuple[str, tuple[Pointer, ...]]:
    """The file itself, through whatever links, and what is read of it."""
    return os.path.realpath(place.path), place.spec.containers


def _first(spec: FileSpec, paths: Iterator[Path], project: Path) -> Iterator[FileCandidate]:
    """Yield the paths that do not exist, then the first that does; with a `*`, all that do."""
    for path in paths:
        matches = _matches(path)
        yield from (FileCandidate(match, spec, project) for match in matches)
        if matches:
            return
        yield FileCandidate(path, spec, project, exists=False)


def _matches(path: Path) -> list[Path]:
    wildcard = next((at for at, part in enumerate(path.parts) if "*" in part), None)
    if wildcard is None:
        return [path] if is_file(path) else []
    folder, pattern = Path(*path.parts[:wildcard]), "/".join(path.parts[wildcard:])
    files = sorted(match for match in folder.glob(pattern) if is_file(match))
    return files[:_MOST_MATCHES]
