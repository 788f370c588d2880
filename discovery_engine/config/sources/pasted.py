"""Servers in a text that an owner copied from the file or the page of another client.

{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.config.settings import ServerSettings
from discovery_engine.config.sources.client_table import load_table
from discovery_engine.config.sources.entries import EntryReader, SkippedEntryError, entries_of
from discovery_engine.config.sources.formats import UnreadableError, parse
from discovery_engine.config.sources.source_reader import (
    WHOLE_BLOCK,
    kind_of,
    looks_like_entry,
    normalized_name,
)
from discovery_engine.config.sources.variables import VariableSyntax
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError
from discovery_engine.tools.model import ServerName

_PLACE = "the pasted text"


class PastedServer(Struct, frozen=True):
    """A server of such a text."""

    name: str
    """Empty if the text has none."""
    server: ServerSettings | None
    """None if it cannot be used."""
    notes: tuple[str, ...] = ()
    """Notes on what was changed or left out."""
    problem: str = ""
    """Why it cannot be used."""


def read_pasted(text: str) -> tuple[PastedServer, ...]:
    """The servers of a text, in its order; nothing of it is started or resolved.

    Raises:
        ConfigurationError: If it cannot be read, or has no server.
    """
    try:
        document = parse(text.encode(), "any")
    except UnreadableError as error:
        place = f"line {error.line}: " if error.line else ""
        message = f"{place}{error.reason}"
        raise ConfigurationError.of_file(
            "CONFIG_UNREADABLE", _PLACE, message, WHOLE_BLOCK
        ) from error
    if isinstance(document, dict) and looks_like_entry(document):
        return (_pasted(_reader(""), ServerName(""), "", document),)
    path, container = _container(document)
    servers = tuple(_servers(path, container)) if isinstance(container, dict | list) else ()
    if not servers:
        message, hint = kind_of(document)
        raise ConfigurationError.of_file(
            "CONFIG_UNREADABLE", _PLACE, message or "has no server", hint or WHOLE_BLOCK
        )
    return servers


def _container(document: JSONValue) -> tuple[str, JSONValue]:
    """The first thing in it that may hold servers; the whole, if its members are some."""
    [spec] = load_table().clients["custom"].files
    for pointer in filter(None, spec.containers):
        inner = document
        for step in pointer:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if isinstance(inner, dict | list):
            return ".".join(pointer), inner
    members = [*document.values()] if isinstance(document, dict) else document
    is_whole = isinstance(members, list) and all(isinstance(member, dict) for member in members)
    return "", document if is_whole else None


def _servers(
    path: str, container: dict[str, JSONValue] | list[JSONValue]
) -> Iterator[PastedServer]:
    reader = _reader(path)
    for entry_name, entry in entries_of(container, reader.client.entry):
        name = normalized_name(entry_name) if isinstance(entry_name, str) else None
        yield _pasted(reader, name or ServerName("server"), str(entry_name), entry)


def _reader(path: str) -> EntryReader:
    client = load_table().clients["custom"]
    return EntryReader(
        client, Origin(""), path, VariableSyntax(client.label, client.variables, {}, Path())
    )


def _pasted(reader: EntryReader, name: ServerName, written: str, entry: JSONValue) -> PastedServer:
    try:
        read = reader.read(name, entry, key=written)
    except SkippedEntryError as reason:
        return PastedServer(name, None, problem=str(reason))
    if problem := read.server.problem:
        return PastedServer(name, None, problem=f"{problem.message} {problem.hint}".strip())
    renamed = (f"it is called {name!r} here",) if name != written else ()
    lists = ("its lists of tools are left out; write them as tool rules",) if read.rules else ()
    return PastedServer(name, read.server, (*renamed, *read.notes, *lists))
