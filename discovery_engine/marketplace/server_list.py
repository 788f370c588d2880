"""A list of a team's own servers: YAML or JSON, with each mistake at its line.

    servers:
      acme-files:
        description: Files of the team.
        package: npm:@acme/files@1.2.0        # or pypi:, oci:, nuget:, mcpb:
        arguments: [--root, "{root}"]
        inputs: {root: {description: The folder, format: filepath, required: true}}
        env: {FILES_KEY: {secret: true, required: true}}

A mistake costs only its entry. An entry is written as the `server.json` that would say the same,
and parsed like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import AfterValidator, Field, ValidationError, model_validator

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.document.tree import Fault, Node
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.loading.validation import faults_from, normalize_keys
from discovery_engine.config.model.field_types import (
    Flag,
    HeaderName,
    Text,
    Word,
    Words,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.section import Section
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    InputFormat,
    MarketplaceEntry,
    RefusedOffer,
)
from discovery_engine.marketplace.server_json import MalformedEntryError, parse_server
from discovery_engine.marketplace.source import DocumentSource, SourceFailure, SourcePage

_CODE = "MARKETPLACE_LIST_INVALID"
_VALUES = 200_000  # scalars; a thousand servers have a tenth of that
_PACKAGE = re.compile(r"(npm|pypi|oci|nuget|mcpb):(\S+)")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_HINT = "write TYPE:NAME@VERSION, such as npm:@acme/files@1.2.0 or oci:ghcr.io/acme/files:1.2.0"


def _good_package(text: str) -> str:
    if text and not _PACKAGE.fullmatch(text):
        raise custom_error(f"{text!r} is no package", hint=_HINT)
    return text


class TeamInput(Section):
    """A value that is asked for at installation; a text stands for one that is given."""

    value: Text = ""
    description: Text = ""
    required: Flag = False
    secret: Flag = False
    default: Text = ""
    choices: Words = Field(default=[])
    placeholder: Text = ""
    format: Annotated[InputFormat, choice] = "string"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: JSONValue) -> JSONValue:
        return {"value": value} if isinstance(value, str) else value

    def to_json(self) -> JSONObject:
        """Return the input in the form that a `server.json` has."""
        return {
            "description": self.description,
            "isRequired": self.required,
            "isSecret": self.secret,
            "default": self.default,
            "choices": self.choices,
            "placeholder": self.placeholder,
            "format": self.format,
        }


class TeamTool(Section):
    """A tool of a server; a text is its name."""

    name: Word
    description: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: JSONValue) -> JSONValue:
        return {"name": value} if isinstance(value, str) else value


class TeamServer(Section):
    """One server of a list."""

    title: Text = ""
    description: Text = ""
    publisher: Text = ""
    repository: Text = ""
    website: Text = ""
    package: Annotated[Text, AfterValidator(_good_package)] = ""
    sha256: Text = ""
    url: Text = ""
    transport: Annotated[Literal["streamable-http", "sse"], choice] = "streamable-http"
    arguments: Words = Field(default=[])
    env: Annotated[dict[Word, TeamInput], mapping_or_nothing] = Field(default={})
    headers: Annotated[dict[HeaderName, TeamInput], mapping_or_nothing] = Field(default={})
    inputs: Annotated[dict[Word, TeamInput], mapping_or_nothing] = Field(default={})
    tools: Annotated[list[TeamTool], list_or_nothing] = Field(default=[])
    tags: Words = Field(default=[])
    deprecated: Text = ""


class ServerList(DocumentSource):
    """A source of type `file`."""

    def page(self, content: bytes, etag: str) -> SourcePage:
        document = read_document(content, size_limit=bounds.CATALOG_BYTES, value_limit=_VALUES)
        faults = list(document.faults)
        servers = document.root.child("servers") if document.root else None
        if document.is_broken or servers is None or not isinstance(servers.value, dict):
            raise self._no_list(faults)
        entries: list[MarketplaceEntry] = []
        broken = {fault.path[1] for fault in faults if len(fault.path) > 1}
        for name, node in servers.children():
            if name in broken:
                continue
            outcome = _read_server(str(name), node, self.origin)
            if isinstance(outcome, MarketplaceEntry):
                entries.append(outcome)
            else:
                faults += outcome
        faults += _unknown_keys(document.root)
        faults.sort(key=lambda fault: fault.at)
        return SourcePage(
            tuple(entries),
            mistakes=tuple(map(self._diagnostic, faults)),
            etag=etag,
            size=len(content),
        )

    @property
    def _file(self) -> str:
        return self.settings.path or self.settings.address

    def _no_list(self, faults: list[Fault]) -> SourceFailure:
        first = faults[0] if faults else None
        at = first.at if first else None
        reason = first.message if first else "has no mapping `servers`"
        hint = (first.hint if first else "") or "write `servers:`, and below it NAME: and its keys"
        return SourceFailure(
            "MARKETPLACE_LIST_INVALID",
            f"the list {reason}",
            hint=hint,
            origin=Origin(self._file, at.line if at else 0, at.column if at else 0),
        )

    def _diagnostic(self, fault: Fault) -> Diagnostic:
        way = ".".join(map(str, fault.path))
        origin = Origin(self._file, fault.at.line, fault.at.column)
        message = f"{way}: {fault.message}" if way else fault.message
        return Diagnostic(_CODE, message, fault.hint, self.settings.name, origin)


def _read_server(name: str, node: Node, origin: EntryOrigin) -> MarketplaceEntry | list[Fault]:
    """The entry of a node, or what is wrong with it."""
    path = ("servers", name)
    if faults := normalize_keys(node, TeamServer, path):
        return faults
    try:
        listed = TeamServer.model_validate(node.plain())
    except ValidationError as error:
        return faults_from(error, node, path)
    if faults := list(_mistakes(listed, node, path)):
        return faults
    try:
        entry = parse_server(_server(name, listed), origin=origin)
    except MalformedEntryError as error:
        hint = "begin it with a letter or a digit, go on with letters, digits and . _ - / @"
        return [Fault(_CODE, path, node.name_at, str(error), hint)]
    if entry.refused:
        return [_refusal(offer, node, path) for offer in entry.refused]
    return replace(entry, publisher=listed.publisher or entry.publisher)


def _refusal(refused: RefusedOffer, node: Node, path: tuple[str, ...]) -> Fault:
    key = "url" if node.child("url") else "package"
    at = (node.child(key) or node).start
    return Fault(_CODE, (*path, key), at, refused.reason, _HINT if key == "package" else "")


def _mistakes(listed: TeamServer, node: Node, path: tuple[str, ...]) -> Iterator[Fault]:
    """Yield the mistakes that no single field shows."""
    if bool(listed.package) == bool(listed.url):
        hint = "write one of the two"
        yield Fault(_CODE, path, node.name_at, "needs either `package` or `url`", hint)
    for key, values in (("env", listed.env), ("headers", listed.headers)):
        for name, value in values.items():
            member = (node.child(key) or node).child(name) or node
            yield from _open_places(value.value, listed, member, (*path, key, name))
    for number, argument in enumerate(listed.arguments):
        member = (node.child("arguments") or node).child(number) or node
        yield from _open_places(argument, listed, member, (*path, "arguments", number))


def _open_places(
    text: str, listed: TeamServer, node: Node, path: tuple[str | int, ...]
) -> Iterator[Fault]:
    for name in _PLACE.findall(text):
        if name not in listed.inputs:
            hint = f"add `{name}` below `inputs`"
            yield Fault(_CODE, path, node.start, f"{{{name}}} is none of `inputs`", hint)


def _unknown_keys(root: Node | None) -> Iterator[Fault]:
    for key, node in root.children() if root else ():
        if key not in ("servers", "$schema"):
            yield Fault(_CODE, (key,), node.name_at, f"unknown key {key!r}", "known here: servers")


def _server(name: str, listed: TeamServer) -> JSONObject:
    """The `server.json` of an entry."""
    document: JSONObject = {
        "name": name,
        "title": listed.title,
        "description": listed.description,
        "repository": {"url": listed.repository},
        "websiteUrl": listed.website,
        "tags": listed.tags,
        "status": "deprecated" if listed.deprecated else "active",
        "_meta": {
            "io.modelcontextprotocol.registry/official": {"statusMessage": listed.deprecated}
        },
    }
    if listed.tools:
        document["tools"] = [tool.model_dump() for tool in listed.tools]
    if listed.url:
        variables = {key: declaration.to_json() for key, declaration in listed.inputs.items()}
        headers = [_input(listed, key, value) for key, value in listed.headers.items()]
        document["remotes"] = [
            {
                "type": listed.transport,
                "url": listed.url,
                "headers": headers,
                "variables": {k: v for k, v in variables.items() if f"{{{k}}}" in listed.url},
            }
        ]
    elif match := _PACKAGE.fullmatch(listed.package):
        document |= _package(match[1], match[2], listed)
    return document


def _package(kind: str, text: str, listed: TeamServer) -> JSONObject:
    name, version = text, ""
    if kind not in ("oci", "mcpb"):
        for sign in ("==", "@"):
            head, separator, tail = text.rpartition(sign)
            if separator and head:
                name, version = head, tail
                break
    package = {
        "registryType": kind,
        "identifier": name,
        "version": version,
        "fileSha256": listed.sha256 or None,
        "packageArguments": [
            {"type": "positional", **_templated(listed, argument)} for argument in listed.arguments
        ],
        "environmentVariables": [_input(listed, key, value) for key, value in listed.env.items()],
    }
    return {"packages": [package], "version": version}


def _input(listed: TeamServer, name: str, value: TeamInput) -> JSONObject:
    return {"name": name, **value.to_json(), **_templated(listed, value.value)}


def _templated(listed: TeamServer, text: str) -> JSONObject:
    names = dict.fromkeys(_PLACE.findall(text))
    return {"value": text, "variables": {name: listed.inputs[name].to_json() for name in names}}
