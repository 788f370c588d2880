"""Reads servers from the files of other MCP clients, and from any file of the same format.

The table `clients.yaml` has the paths and formats of these files. Reading starts no server,
resolves no reference and widens no permission: a client's deny lists become rules, its approvals
only tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path, PurePath

from msgspec.structs import replace

from discovery_engine._util.json import JSONValue
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.files.inputs import read_input
from discovery_engine.config.settings import Source
from discovery_engine.config.sources.client_table import (
    ClientRow,
    FileCandidate,
    FileLocator,
    layout_of,
    load_table,
)
from discovery_engine.config.sources.docker import (
    read_gateway,
    read_named_gateway,
    read_named_toolkit,
    read_toolkit,
)
from discovery_engine.config.sources.entries import entries_of
from discovery_engine.config.sources.formats import Format, UnreadableError, format_of, parse
from discovery_engine.config.sources.source_reader import SourceReader, read_entries, value_at
from discovery_engine.config.sources.source_result import ClientFile, SourceResult
from discovery_engine.errors import Diagnostic, Origin

__all__ = [
    "SOURCE_TYPES",
    "ClientFile",
    "SourceResult",
    "client_files",
    "read_source",
    "source_of_file",
]

_MAX_CONFIG_FILE_BYTES = 1 << 24  # bytes of a file whose client is not known yet

SOURCE_TYPES: tuple[str, ...] = tuple(load_table().clients)
"""The values of `sources: [{type: …}]`: the id of a client, or `custom`."""


def read_source(
    source: Source, *, environ: Mapping[str, str], home: Path, cwd: Path, platform: str
) -> SourceResult:
    """Read the servers of a source; without a path, from the client's own files.

    Problems are in `warnings`; nothing is raised.

    Args:
        source: The source.
        environ: The environment, for the folders of clients.
        home: The user's home folder.
        cwd: The folder that a relative path starts at.
        platform: The value of `sys.platform`.
    """
    client = load_table().clients.get(source.type)
    if client is None:
        return SourceResult(warnings=(_unknown(source),))
    reading = SourceReader(client, FileLocator(environ, home, cwd, layout_of(platform)))
    if source.path is None:
        _read_own_files(reading)
    else:
        path = reading.places.resolve_path(source.path)
        _NAMED_READERS[client.reader](reading, _named_file(client, path, cwd))
    return reading.result()


def client_files(
    *, environ: Mapping[str, str], home: Path, cwd: Path, platform: str
) -> tuple[ClientFile, ...]:
    """Return the existing files of clients, judged by their status; none of them is opened."""
    places = FileLocator(environ, home, cwd, layout_of(platform))
    files = (
        ClientFile(client.id, client.label, str(place.path), place.scope)
        for client in load_table().clients.values()
        if client.offered
        for place in places.candidates(client)
        if place.exists and place.spec.containers
    )
    return tuple(dict.fromkeys(files))


def source_of_file(
    path: Path, *, environ: Mapping[str, str], home: Path, cwd: Path, platform: str
) -> Source:
    """Return the source that reads a file as its client does.

    The client is recognized by the end of the path and the keys in the file; without a match the
    source is `custom`. The file is opened; nothing is raised if it cannot be read.
    """
    places = FileLocator(environ, home, cwd, layout_of(platform))
    clients = [
        client for client in load_table().clients.values() if client.reader != "docker_gateway"
    ]
    formats = {client.id: format_of(path.suffix, client.format) for client in clients}
    documents = {kind: _document(path, kind) for kind in {*formats.values()}}
    contents = [(client, documents[formats[client.id]]) for client in clients]
    ranked = [
        ((_rank_of_path(path, client, places), _rank_of_keys(document, client)), client.id)
        for client, document in contents
        if document is None or _has_container(document, client)
    ]
    # The first of equals in the table.
    rank, best = max(ranked, key=itemgetter(0), default=((0, 0), ""))
    return Source(best if any(rank) else "custom", str(path))


def _document(path: Path, kind: Format) -> JSONValue:
    with suppress(OSError, ValueError, UnreadableError):
        content, _ = read_input(str(path), limit=_MAX_CONFIG_FILE_BYTES)
        return parse(content, format_of(path.suffix, kind))
    return None


def _has_container(document: JSONValue, client: ClientRow) -> bool:
    pointers = (pointer for spec in client.files for pointer in spec.containers if pointer)
    return any(value_at(document, pointer) is not None for pointer in pointers)


def _rank_of_path(path: Path, client: ClientRow, places: FileLocator) -> int:
    """Return how many steps at the end of a path are those of a client's own file."""
    if any(_is_same(place.path, path) for place in places.candidates(client) if place.exists):
        return len(path.parts)
    templates = (
        PurePath(template.partition("}/")[2] or template)
        for spec in client.files
        for group in spec.paths.values()
        for template in group
    )
    steps = max((_common_end(path, template) for template in templates), default=0)
    return steps if steps > 1 or _is_own_name(path.name, client) else 0


def _is_own_name(name: str, client: ClientRow) -> bool:
    """Return whether a file's name, without its folder, is enough to recognize the client."""
    words = [word for word in client.id.split("-") if word != "mcp"]
    return name.startswith(".") or any(word in name for word in words)


def _is_same(left: Path, right: Path) -> bool:
    with suppress(OSError, ValueError):
        return left.samefile(right)
    return False


def _common_end(path: Path, template: PurePath) -> int:
    """Return how many steps of a template end the path: all, or one for an equal file name."""
    steps = template.parts
    end = path.parts[-len(steps) :]
    if len(end) == len(steps) and all(map(fnmatchcase, end, steps)):
        return len(steps)
    return 1 if path.name == template.name else 0


def _rank_of_keys(document: JSONValue, client: ClientRow) -> int:
    """Return how many of the client's marks are keys of the document or its entries."""
    if not isinstance(document, dict):
        return 0
    keys = {*document}
    for spec in client.files:
        for pointer in spec.containers:
            container = value_at(document, pointer)
            if isinstance(container, dict | list):
                entries = (entry for _, entry in entries_of(container, client.entry))
                keys.update(key for entry in entries if isinstance(entry, dict) for key in entry)
    return sum(mark in keys for mark in client.marks)


def _read_own_files(reading: SourceReader) -> None:
    places = list(reading.places.candidates(reading.client))
    for place in places:
        if not place.exists:
            reading.record_absent(place.path)
    there = [place for place in places if place.exists]
    if any(place.spec.containers for place in there):
        _READERS[reading.client.reader](reading, there)
        return
    label = reading.client.label
    sought = dict.fromkeys(str(place.path) for place in places if place.spec.containers)
    looked = f"looked for {', '.join(sought)}" if sought else "name one with `path`"
    reading.warn(
        "SOURCE_EMPTY", Origin(reading.client.id), f"no file of {label} was found; {looked}"
    )


def _named_file(client: ClientRow, path: Path, cwd: Path) -> list[FileCandidate]:
    """Return the file as a candidate for each set of containers that the client's files have."""
    specs = {spec.containers: spec for spec in client.files if spec.containers}
    return [FileCandidate(path, replace(spec, scope="user"), cwd) for spec in specs.values()]


def _unknown(source: Source) -> Diagnostic:
    hint = did_you_mean(source.type, SOURCE_TYPES, otherwise=f"known are {', '.join(SOURCE_TYPES)}")
    message = f"no such type of source: {source.type!r}"
    return Diagnostic("SOURCE_UNKNOWN", message, hint, "sources")


_READERS: Mapping[str, Callable[[SourceReader, list[FileCandidate]], None]] = {
    "entries": read_entries,
    "docker_toolkit": read_toolkit,
    "docker_gateway": read_gateway,
}
_NAMED_READERS: Mapping[str, Callable[[SourceReader, list[FileCandidate]], None]] = {
    "entries": read_entries,
    "docker_toolkit": read_named_toolkit,
    "docker_gateway": read_named_gateway,
}
