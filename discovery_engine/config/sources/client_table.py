"""The table of clients, read from `clients.yaml`: the paths and formats of their files.

Everything special about a client is in its row of the table; no code names a client.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from discovery_engine.config.sources.formats import Format, parse

Layout: TypeAlias = Literal["linux", "darwin", "windows"]
Scope: TypeAlias = Literal["user", "project", "managed"]
Pointer: TypeAlias = tuple[str, ...]
"""The keys that lead to a value in a file, from its root."""

_LAYOUTS: tuple[Layout, ...] = ("linux", "darwin", "windows")


class FileSpec(Struct, frozen=True):
    scope: Scope
    paths: Mapping[Layout, tuple[str, ...]]
    """Alternative paths; the first that exists is used."""
    containers: tuple[Pointer, ...]
    """The places of servers in the file; empty for a file with only switches."""


class Switch(Struct, frozen=True):
    """A list of server names, which allows only these servers or disables them."""

    at: Pointer
    means: Literal["allowed", "disabled"]
    scope: Scope | None = None
    """The scope of the affected servers; None for all."""


class EntryShape(Struct, frozen=True):
    """The meaning of the keys of an entry; `clients.yaml` explains each."""

    name: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[str, ...]
    cwd: tuple[str, ...]
    url: Mapping[str, Literal["auto", "http"]]
    headers: tuple[str, ...]
    kind: tuple[str, ...]
    description: tuple[str, ...]
    unwrap: tuple[str, ...]
    env_names: tuple[str, ...]
    header_names: tuple[str, ...]
    bearer: tuple[str, ...]
    bearer_name: tuple[str, ...]
    oauth: Mapping[str, tuple[str, ...]]
    on: tuple[str, ...]
    off: tuple[str, ...]
    timeouts: Mapping[Literal["connect", "list", "call"], Mapping[str, str]]
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    empty_allow: Literal["none", "all"]
    call_syntax: bool
    approve: tuple[str, ...]
    approve_all: tuple[str, ...]
    skip: Mapping[str, Mapping[str, str]]
    unread: Mapping[str, str]
    ignored: tuple[str, ...]


class NewEntry(Struct, frozen=True):
    """The form of a new entry, and its members beside the usual keys."""

    list: bool
    one_command: bool
    stdio: Mapping[str, str | tuple[str, ...]]
    http: Mapping[str, str | tuple[str, ...]]
    sse: Mapping[str, str | tuple[str, ...]]


class ClientRow(Struct, frozen=True):
    id: str
    label: str
    last_checked: str
    """The year and month."""
    files: tuple[FileSpec, ...]
    format: Format
    variables: tuple[str, ...]
    known: Mapping[str, str]
    entry: EntryShape
    switches: tuple[Switch, ...]
    tool_switches: tuple[Pointer, ...]
    approved_tools: tuple[Pointer, ...]
    marks: tuple[str, ...]
    bytes: int
    reader: str
    offered: bool
    folder: str
    new: NewEntry


class Table(Struct, frozen=True):
    clients: Mapping[str, ClientRow]
    roots: Mapping[str, Mapping[str, str]]
    kinds: Mapping[str, str]


@cache
def load_table() -> Table:
    """Return the packaged table, parsed once."""
    document = parse(files(__package__).joinpath("clients.yaml").read_bytes(), "yaml")
    defaults = document["defaults"]
    clients = tuple(_client(_merged(defaults, row)) for row in document["clients"])
    return Table({client.id: client for client in clients}, document["roots"], document["kinds"])


def _merged(defaults: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    entry = {**defaults["entry"], **row.get("entry", {})}
    entry["unread"] = {**defaults["entry"]["unread"], **entry["unread"]}
    new = {**defaults["new"], **row.get("new", {})}
    return {**defaults, **row, "entry": entry, "new": new}


def _client(row: Mapping[str, Any]) -> ClientRow:
    files = [
        {
            "scope": spec["scope"],
            "paths": _paths(spec["path"]),
            "containers": spec.get("containers", row["containers"]),
        }
        for spec in row["files"]
    ]
    # Every scalar of the table is text.
    return convert({**row, "files": files}, ClientRow, strict=False)


def _paths(path: str | list[str] | dict[Layout, str | list[str]]) -> dict[Layout, list[str]]:
    by_layout = path if isinstance(path, dict) else dict.fromkeys(_LAYOUTS, path)
    return {key: [some] if isinstance(some, str) else some for key, some in by_layout.items()}


# The files of a client on this machine: the table's paths with their folders filled in. Only the
# status of files is read. Folders are arguments, so that tests can lay out every platform's files
# under any folder.

_ROOT = re.compile(r"\{(\w+)\}")
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_MOST_PARENTS = 32
_MOST_MATCHES = 64  # files that match one `*`


class FileCandidate(Struct, frozen=True):
    """A file of a client, which may not exist."""

    path: Path
    spec: FileSpec
    project: Path
    """The project folder of the file; for a user's file, the working folder."""
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
        """The working folder and its parents up to the repository's root; else only itself."""
        upwards = (self.cwd, *self.cwd.parents)[:_MOST_PARENTS]
        for depth, folder in enumerate(upwards):
            if (folder / ".git").exists():
                return upwards[: depth + 1]
        return upwards[:1]

    def candidates(self, client: ClientRow) -> Iterator[FileCandidate]:
        """Yield the client's files, existing or not, the highest precedence first.

        An existing file that several paths lead to is yielded once, as the user's if it is one.
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
                paths = (self.path(template) for template in templates)
                yield from _first(spec, paths, self.cwd)

    def _nearest(self, spec: FileSpec, templates: tuple[str, ...]) -> Iterator[FileCandidate]:
        for project in self.projects:
            for place in _first(spec, (project / template for template in templates), project):
                yield place
                if place.exists:
                    return

    def resolve_path(self, path: str) -> Path:
        """Resolve a path of an owner: absolute, below the home folder (`~/`), or below `cwd`."""
        return self.home / path[2:] if path.startswith("~/") else self.cwd / path

    def path(self, template: str) -> Path:
        return self.cwd / _ROOT.sub(self._root, template)

    def _root(self, match: re.Match[str]) -> str:
        folders = load_table().roots[match[1]]
        template = folders.get(self.layout, folders["any"])
        text = _VARIABLE.sub(lambda m: self.environ.get(m[1]) or m[2], template)
        return str(self.home) + text[1:] if text.startswith("~") else text


def layout_of(platform: str) -> Layout:
    """Return the layout for a `sys.platform`, or for a layout's own name."""
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
    """Return the real path of a file, and its containers."""
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
