"""The lock file: a whole catalog, pinned, for version control and review.

    {
      "lockVersion": 1,
      "servers": {
        "time": {
          "identity": "5f0c…",             digest of the command or URL, equal on every machine
          "reached": "uvx mcp-server-time",  for readers; nothing is started from it
          "instructions": "",
          "tools": {"convert_time": {"fingerprint": "b01d…", "definition": {…}}}
        }
      }
    }

Equal catalogs give equal bytes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.files.inputs import read_input
from discovery_engine.config.files.location import lock_path
from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport
from discovery_engine.errors import ConfigurationError, Diagnostic
from discovery_engine.tools.model import ServerName, canonical_json, fingerprint
from discovery_engine.tools.offering import Definition
from discovery_engine.trust.definition_diff import Change, Weight, diff_definitions, heaviest
from discovery_engine.trust.server_identity import written_identity
from discovery_engine.trust.tool_acceptance import meaning

LOCK_VERSION = 1
_MAX_LOCKFILE_BYTES = 256 * 1024 * 1024  # bytes; ten thousand tools take some 10 MB

What: TypeAlias = Literal["added", "removed", "changed"]


class PinnedServer(Struct, frozen=True, dict=True):
    identity: str
    reached: str
    instructions: str
    tools: Mapping[str, JSONObject]
    """The definitions of tools, by the server's own tool names."""
    meanings: Mapping[str, str]
    """The `meaning` of every definition, by its key in decisions."""
    offerings: Mapping[str, JSONObject] = MappingProxyType({})
    """The definitions of resources, templates and prompts, by their keys in decisions."""

    @cached_property
    def definitions(self) -> Mapping[str, JSONObject]:
        """The definitions of all kinds, by their keys in decisions."""
        return {**self.tools, **self.offerings}

    @cached_property
    def fingerprints(self) -> Mapping[str, str]:
        return {
            key: fingerprint(canonical_json(definition))
            for key, definition in self.definitions.items()
        }


class Lock(Struct, frozen=True):
    servers: Mapping[ServerName, PinnedServer]

    def pins_server(self, name: ServerName, identity: str) -> bool:
        """Return whether a server of this name is pinned with this `written_identity`."""
        pinned = self.servers.get(name)
        return pinned is not None and pinned.identity == identity

    def pins(self, definition: Definition) -> bool:
        pinned, key = self.servers.get(definition.server), definition.decision_key
        if pinned is None or key not in pinned.definitions:
            return False
        if definition.fingerprint == pinned.fingerprints[key]:
            return True
        return meaning(definition.definition) == pinned.meanings[key]

    def pins_instructions(self, name: ServerName, text: str) -> bool:
        pinned = self.servers.get(name)
        return pinned is not None and pinned.instructions == text


_CODES: Mapping[What, str] = {
    "added": "LOCK_ADDED",
    "removed": "LOCK_REMOVED",
    "changed": "LOCK_CHANGED",
}


class Deviation(Diagnostic, frozen=True, kw_only=True):
    """A server or definition that differs from the lock file."""

    what: What
    server: ServerName
    tool: str
    """The key of the tool or other definition; empty for the server itself."""
    weight: Weight
    changes: tuple[Change, ...] = ()

    @classmethod
    def between(
        cls,
        what: What,
        server: ServerName,
        tool: str,
        weight: Weight,
        changes: tuple[Change, ...] = (),
    ) -> Deviation:
        return cls(
            code=_CODES[what],
            message=f"{what} ({weight})",
            hint="review it; `discovery config lock` pins what is there now",
            subject=f"{server}:{tool}" if tool else server,
            what=what,
            server=server,
            tool=tool,
            weight=weight,
            changes=changes,
        )


def lock_of_parts(servers: Iterable[ServerSettings], catalog: Catalog) -> Lock:
    """Return the lock of the current lists of these servers; servers never listed are left out."""
    pairs = ((server, catalog.parts.get(server.name)) for server in servers)
    return Lock({server.name: _pinned(server, part) for server, part in pairs if part})


def to_text(lock: Lock) -> str:
    """Return the content of the lock file."""
    servers = {name: _server_form(pinned) for name, pinned in lock.servers.items()}
    form = {"lockVersion": LOCK_VERSION, "servers": servers}
    # With ASCII escapes, so that a reviewer sees characters that an editor would hide.
    return json.dumps(form, indent=2, sort_keys=True) + "\n"


def from_text(text: str | bytes) -> Lock:
    """Parse the content of a lock file.

    Raises:
        ValueError: If it is no lock, or a definition does not match its fingerprint.
    """
    form = json.loads(text)
    match form:
        case {"lockVersion": int() as version, "servers": dict() as servers}:
            if version != LOCK_VERSION:
                raise ValueError(f"it has version {version}; this program reads {LOCK_VERSION}")
        case _:
            raise ValueError("it has no 'lockVersion' and 'servers'")
    return Lock({ServerName(name): _read_server(name, pin) for name, pin in servers.items()})


def load_lock(settings: Settings) -> Lock:
    """Read the lock file beside the configuration.

    Raises:
        ConfigurationError: If there is no lock file, or it cannot be read or is damaged.
    """
    if settings.path is None:
        raise _no_lock("", "there is no discovery.yaml beside which a lock file could be")
    path = lock_path(settings.path)
    try:
        content, _ = read_input(path, limit=_MAX_LOCKFILE_BYTES)
        return from_text(content)
    except FileNotFoundError as error:
        raise _no_lock(path, "there is no lock file") from error
    except OSError as error:
        raise _no_lock(path, f"the lock file cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _no_lock(path, f"the lock file is damaged: {error}") from error


def deviations(lock: Lock, now: Lock) -> tuple[Deviation, ...]:
    """Return the deviations of `now` from `lock`, sorted by server and definition."""
    differences: list[Deviation] = []
    for name in sorted({*lock.servers, *now.servers}):
        differences += _of_server(name, lock.servers.get(name), now.servers.get(name))
    return tuple(differences)


def _no_lock(path: str, message: str) -> ConfigurationError:
    hint = "`discovery config lock` writes one"
    return ConfigurationError.of_file("LOCK_UNUSABLE", path, message, hint)


def _pinned(server: ServerSettings, part: ServerPart) -> PinnedServer:
    tools = {entry.tool.decision_key: entry.tool.definition for entry in part.entries}
    offerings = {e.offering.decision_key: e.offering.definition for e in part.offerings}
    meanings = {key: meaning(definition) for key, definition in {**tools, **offerings}.items()}
    return PinnedServer(
        written_identity(server),
        _reached(server),
        part.present_instructions,
        tools,
        meanings,
        offerings,
    )


def _reached(server: ServerSettings) -> str:
    if server.transport is None:
        return ""
    transport = redact_transport(server.transport)
    if isinstance(transport, StdioTransport):
        return shlex.join([transport.command, *transport.args])
    return transport.url


def _server_form(pinned: PinnedServer) -> JSONObject:
    form = {
        "identity": pinned.identity,
        "reached": pinned.reached,
        "instructions": pinned.instructions,
        "tools": _definitions_form(pinned.tools, pinned.meanings),
    }
    if pinned.offerings:
        form["offerings"] = _definitions_form(pinned.offerings, pinned.meanings)
    return form


def _definitions_form(
    definitions: Mapping[str, JSONObject], meanings: Mapping[str, str]
) -> JSONObject:
    return {
        key: {"fingerprint": meanings[key], "definition": definition}
        for key, definition in definitions.items()
    }


def _read_server(name: str, form: JSONValue) -> PinnedServer:
    match form:
        case {
            "identity": str() as identity,
            "reached": str() as reached,
            "instructions": str() as instructions,
            "tools": dict() as tools,
        } if isinstance(offerings := form.get("offerings", {}), dict):
            of_tools = _read_definitions(name, tools)
            of_others = _read_definitions(name, offerings)
            meanings = {
                key: definition["fingerprint"] for key, definition in {**tools, **offerings}.items()
            }
            return PinnedServer(identity, reached, instructions, of_tools, meanings, of_others)
        case _:
            raise ValueError(f"server {name!r} is not whole")


def _read_definitions(server: str, forms: JSONObject) -> dict[str, JSONObject]:
    return {key: _read_definition(f"{server}:{key}", form) for key, form in forms.items()}


def _read_definition(name: str, form: JSONValue) -> JSONObject:
    match form:
        case {"fingerprint": str() as pinned, "definition": dict() as definition}:
            if meaning(definition) != pinned:
                raise ValueError(f"the fingerprint of {name!r} is not that of its definition")
            return definition
        case _:
            raise ValueError(f"definition {name!r} is not whole")


def _of_server(
    name: ServerName, pinned: PinnedServer | None, now: PinnedServer | None
) -> Iterator[Deviation]:
    if now is None:
        yield Deviation.between("removed", name, "", "breaking")
        return
    if pinned is None:
        yield Deviation.between("added", name, "", "compatible")
        return
    if pinned.identity != now.identity:
        change = Change("breaking", "reached", pinned.reached, now.reached)
        yield Deviation.between("changed", name, "", "breaking", (change,))
    if pinned.instructions != now.instructions:
        change = Change("text", "instructions", pinned.instructions, now.instructions)
        yield Deviation.between("changed", name, "", "text", (change,))
    for key in sorted({*pinned.definitions, *now.definitions}):
        yield from _of_definition(name, key, pinned, now)


def _of_definition(
    server: ServerName, key: str, pinned: PinnedServer, now: PinnedServer
) -> Iterator[Deviation]:
    if key not in now.definitions:
        yield Deviation.between("removed", server, key, "breaking")
    elif key not in pinned.definitions:
        yield Deviation.between("added", server, key, "compatible")
    elif pinned.meanings[key] != now.meanings[key]:
        changes = diff_definitions(pinned.definitions[key], now.definitions[key])
        yield Deviation.between("changed", server, key, heaviest(changes) or "text", changes)
