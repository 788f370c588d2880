"""Servers from the files of other MCP clients, and from any file in one of their shapes.

One table, `clients.yaml`, has the paths of the files and their formats. Reading a source
starts nothing, resolves nothing and widens nothing: a client's deny lists become rules, its
approvals become tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.settings import Source
from discovery_engine.config.sources.client_table import ClientRow, load_table
from discovery_engine.config.sources.docker import (
    read_gateway,
    read_named_gateway,
    read_named_toolkit,
    read_toolkit,
)
from discovery_engine.config.sources.locations import FileCandidate, FileLocator, layout_of
from discovery_engine.config.sources.source_reader import SourceReader, read_entries
from discovery_engine.config.sources.source_result import ClientFile, SourceResult
from discovery_engine.diagnostics import Diagnostic, Origin

__all__ = ["SOURCE_TYPES", "ClientFile", "SourceResult", "client_files", "read_source"]

SOURCE_TYPES: tuple[str, ...] = tuple(load_table().clients)
"""The values of `sources: [{type: …}]`: a client's id, or `custom`."""


def read_source(
    source: Source, *, environ: Mapping[str, str], home: Path, cwd: Path, platform: str
) -> SourceResult:
    """The servers of a source; a source without a path is read from the client's own files.

    A relative path starts at `cwd`; `platform` is that of `sys.platform`. Nothing is raised: what
    cannot be read is in `warnings`.
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
    """The files of clients that are there, by their status alone: none of them is opened."""
    places = FileLocator(environ, home, cwd, layout_of(platform))
    found = (
        ClientFile(client.id, client.label, str(place.path), place.scope)
        for client in load_table().clients.values()
        if client.offered
        for place in places.candidates(client)
        if place.exists and place.spec.containers
    )
    return tuple(dict.fromkeys(found))


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
    """The file as each of the client's own might be: one file can hold several containers."""
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
