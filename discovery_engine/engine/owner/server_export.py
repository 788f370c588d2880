"""The entry of a server as other clients write it, without the values of secrets.

Where each keeps its servers, and what the keys of an entry are called, stands in the table of
clients. A client that expands variables gets references in its own syntax; for one that does not,
`<NAME>` stands where a person has to enter the value.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.editing.client_text import FileShape, with_entry
from discovery_engine.config.editing.yaml_text import block
from discovery_engine.config.entry_secrets import secrets_of
from discovery_engine.config.openapi_entry import portable_words
from discovery_engine.config.serialization import serialize_server_redacted
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.config.sources.client_table import ClientRow, Pointer, load_table
from discovery_engine.config.sources.formats import Format
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    Reference,
    split,
)
from discovery_engine.secrets.resolver import EnvironmentResolver

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject

ExportClient: TypeAlias = Literal[
    "discovery",
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "windsurf",
    "codex",
    "gemini-cli",
]

OWN_FORMAT = "discovery"
EXPORT_CLIENTS = (
    OWN_FORMAT,
    *(
        row.id
        for row in load_table().clients.values()
        if row.reader == "entries" and row.format != "any"
    ),
)
"""Ours, and every client that can be given servers."""

_SYNTAX: Mapping[str, str] = MappingProxyType(
    {
        "brace": "${%s}",
        "env": "${env:%s}",
        "curly_env": "{env:%s}",
        "secrets": "${{ secrets.%s }}",
    }
)
_BEARER = "Bearer "


class ServerExport(Struct, frozen=True):
    client: str
    label: str
    """The name of the client."""
    format: Format
    text: str
    """The section of its file that has this one server."""
    command: str = ""
    """A command of the client that adds it; empty if there is none."""
    values: tuple[str, ...] = ()
    """Variables and secrets that the client needs a value for."""
    notes: tuple[str, ...] = ()
    """Settings of the entry that the client does not have."""


def export_server(server: ServerSettings, client: str) -> ServerExport:
    """The entry of a server whose transport is known, for a client."""
    exported = export_servers([server], client)
    if client != "claude-code":
        return exported
    entry = _EntryWriter(server, load_table().clients[client]).entry()
    words = ["claude", "mcp", "add-json", server.name, json.dumps(entry)]
    return replace(exported, command=shlex.join(words))


def export_servers(servers: Sequence[ServerSettings], client: str) -> ServerExport:
    """A file of a client that has these servers, whose transports are known, and nothing else.

    Args:
        servers: In the order of the file.
        client: One of `EXPORT_CLIENTS`, in the table of clients or ours.
    """
    if client == OWN_FORMAT:
        entries = {server.name: serialize_server_redacted(server) for server in servers}
        for entry in entries.values():
            entry.pop("source", None)
        values = dict.fromkeys(name for server in servers for name in _referenced(server))
        text = block({"servers": {**entries}})
        return ServerExport(client, client, "yaml", text, values=tuple(values))
    row = load_table().clients[client]
    writers = [_EntryWriter(server, row) for server in servers]
    written = {server.name: writer.entry() for server, writer in zip(servers, writers, strict=True)}
    text, shape = "", shape_of(row)
    # An entry is put before those of a JSON file, and behind those of others.
    for name in reversed(written) if shape.kind == "json" else written:
        text = with_entry(text, shape, name, written[name])
    return ServerExport(
        client,
        row.label,
        row.format,
        text,
        values=tuple(dict.fromkeys(name for writer in writers for name in writer.values)),
        notes=tuple(dict.fromkeys(note for writer in writers for note in writer.notes)),
    )


class _EntryWriter:
    """Writes one entry, and notes what a person has to add."""

    def __init__(self, server: ServerSettings, row: ClientRow) -> None:
        self.row = row
        self.values: dict[str, None] = {}
        self.notes: list[str] = []
        self._server = server
        self._hidden = Redactor(
            secret.text for secret in secrets_of(server, EnvironmentResolver({}))
        )
        syntaxes = (_SYNTAX[variable] for variable in row.variables if variable in _SYNTAX)
        self._syntax = next(syntaxes, None)

    def entry(self) -> JSONObject:
        server = self._server
        match server.transport:
            case StdioTransport() as stdio:
                entry = self._stdio(stdio)
                if stdio.sandbox is not None:
                    self.notes.append(f"{self.row.label} runs it without its sandbox")
            case RemoteTransport() as remote:
                entry = self._remote(remote)
                if self.row.id == "claude-desktop":
                    self.notes.append("Claude Desktop takes remote servers as connectors only")
            case None:
                entry = {}
        return {key: value for key, value in entry.items() if value}

    def _stdio(self, stdio: StdioTransport) -> JSONObject:
        shape = self.row.entry
        passed = [name for name, value in stdio.env.items() if value == f"${{{name}}}"]
        named = passed if shape.env_names else []
        self.values.update(dict.fromkeys(named))
        env = {name: self._written(value, name) for name, value in stdio.env.items()}
        return {
            **program_entry(
                self.row,
                self._server.name,
                [self._written(word, "ARGUMENT") for word in portable_words(stdio)],
                {name: value for name, value in env.items() if name not in named},
            ),
            **({shape.env_names[0]: named} if named else {}),
            shape.cwd[0]: self._written(stdio.cwd or "", "FOLDER"),
        }

    def _remote(self, remote: RemoteTransport) -> JSONObject:
        shape = self.row.entry
        members = self.row.new.sse if remote.kind == "sse" else self.row.new.http
        entry = _members(members, self._server.name)
        entry[_address_key(shape.url, remote.kind)] = self._written(remote.url, "URL")
        headers = dict(remote.headers)
        bearer = _variable(headers.get("Authorization", "").removeprefix(_BEARER))
        if shape.bearer_name and bearer:
            entry[shape.bearer_name[0]] = bearer
            self.values[bearer] = None
            del headers["Authorization"]
        if shape.header_names:
            named = {
                name: variable for name, text in headers.items() if (variable := _variable(text))
            }
            entry[shape.header_names[0]] = named
            self.values.update(dict.fromkeys(named.values()))
            headers = {name: text for name, text in headers.items() if name not in named}
        if remote.oauth.client_id:
            self.notes.append(f"{self.row.label} logs in with a client of its own")
        texts: JSONObject = {name: self._written(text, name) for name, text in headers.items()}
        # A key with a dot is one within another, as Continue has them.
        for key in reversed(shape.headers[0].split(".") if texts else ()):
            texts = {key: texts}
        return {**entry, **texts}

    def _written(self, text: str, name: str) -> str:
        """A text with references as the client writes them, and a placeholder for each secret."""
        try:
            parts = split(text)
        except MalformedReferenceError:
            return self._missing(name)
        return "".join(
            self._literal(part, name) if isinstance(part, str) else self._reference(part)
            for part in parts
        )

    def _literal(self, text: str, name: str) -> str:
        hidden = self._hidden.redact(text)
        if "${" in hidden and self.row.variables:
            self.notes.append(f"{self.row.label} may expand what follows `${{` in {name}")
        return hidden.replace(REDACTED, self._missing(name)) if hidden != text else text

    def _reference(self, reference: Reference) -> str:
        if reference.kind in ("file", "command"):
            return self._missing(reference.kind.upper())
        name = reference.name.rpartition("/")[2]
        self.values[name] = None
        return self._syntax % name if self._syntax and name.isidentifier() else f"<{name}>"

    def _missing(self, name: str) -> str:
        self.values[name] = None
        return f"<{name}>"


def program_entry(
    row: ClientRow, name: str, words: Sequence[str], env: Mapping[str, str]
) -> JSONObject:
    """The entry of a program, with the `words` that start it, as a client writes it."""
    shape, (command, *args) = row.entry, words
    if row.new.one_command:
        program: JSONObject = {shape.command[0]: [*words]}
    else:
        program = {shape.command[0]: command, shape.args[0]: args}
    return {**_members(row.new.stdio, name), **program, shape.env[0]: {**env}}


def _members(members: Mapping[str, str | tuple[str, ...]], name: str) -> JSONObject:
    """The members that the table of clients has for each new entry."""
    values = {"true": True, "{name}": name}
    return {
        key: values.get(value, value) if isinstance(value, str) else [*value]
        for key, value in members.items()
    }


def _address_key(keys: Mapping[str, str], kind: str) -> str:
    """The key of an address, by what it says about the transport."""
    transport = "http" if kind == "auto" else kind  # what most servers speak
    exact = (key for key, means in keys.items() if means == transport)
    general = (key for key, means in keys.items() if means == "auto")
    return next(exact, None) or next(general, None) or next(iter(keys))


def _variable(text: str) -> str:
    """The variable that a text refers to and has nothing beside it; else empty."""
    try:
        [part] = split(text)
    except (MalformedReferenceError, ValueError):
        return ""
    is_plain = isinstance(part, Reference) and part.kind == "variable" and part.default is None
    return part.name if isinstance(part, Reference) and is_plain else ""


def _referenced(server: ServerSettings) -> tuple[str, ...]:
    """The variables and secrets of an entry that is shown as it is."""
    writer = _EntryWriter(server, load_table().clients["claude-desktop"])
    writer.entry()
    return tuple(writer.values)


def shape_of(row: ClientRow, pointer: Pointer | None = None) -> FileShape:
    """Return the container of servers in a client's file; by default that of all projects."""
    pointers = (file.containers[0] for file in row.files if file.containers)
    pointer = pointer or next(candidate for candidate in pointers if "{project}" not in candidate)
    return FileShape(row.format, pointer, row.new.list)
