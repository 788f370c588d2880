"""The table of clients, read from `clients.yaml`: where each keeps its servers, and how.

What is special about a client is a row of that table; no code names a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from discovery_engine.config.sources.formats import Format, parse

Layout: TypeAlias = Literal["linux", "darwin", "windows"]
Scope: TypeAlias = Literal["user", "project", "managed"]
Pointer: TypeAlias = tuple[str, ...]
"""Keys that lead down into a file."""

_LAYOUTS: tuple[Layout, ...] = ("linux", "darwin", "windows")


class FileSpec(Struct, frozen=True):
    scope: Scope
    paths: Mapping[Layout, tuple[str, ...]]
    """Alternatives: the first that exists counts."""
    containers: tuple[Pointer, ...]
    """Empty for a file that only holds switches."""


class Switch(Struct, frozen=True):
    """A list of server names that allows only those, or disables them."""

    at: Pointer
    means: Literal["allowed", "disabled"]
    scope: Scope | None = None
    """Only the servers of this scope are meant; None is all of them."""


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


class ClientRow(Struct, frozen=True):
    id: str
    label: str
    last_checked: str
    """Year and month."""
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


class Table(Struct, frozen=True):
    clients: Mapping[str, ClientRow]
    roots: Mapping[str, Mapping[str, str]]
    kinds: Mapping[str, str]


@cache
def load_table() -> Table:
    """The packaged table, parsed once."""
    document = parse(files(__package__).joinpath("clients.yaml").read_bytes(), "yaml")
    defaults = document["defaults"]
    clients = tuple(_client(_merged(defaults, row)) for row in document["clients"])
    return Table({client.id: client for client in clients}, document["roots"], document["kinds"])


def _merged(defaults: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    entry = {**defaults["entry"], **row.get("entry", {})}
    entry["unread"] = {**defaults["entry"]["unread"], **entry["unread"]}
    return {**defaults, **row, "entry": entry}


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
