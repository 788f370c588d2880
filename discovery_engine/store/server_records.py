"""Servers that are not written in a file: installed, imported or added by their owner.

An entry is one of `servers:` in its shortest form, as `config.serialization.serialize_server` gives
it, with references in place of secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject

PackageKind: TypeAlias = Literal["npm", "pypi", "oci", "nuget", "mcpb", "remote"]
ServerOrigin: TypeAlias = Literal["manual", "setup", "marketplace"]
"""The origin of a registration: the owner's hand, a setup file, or an installation."""


class PackagePin(Struct, frozen=True, omit_defaults=True):
    """The one version of a package that a server runs."""

    registry_type: PackageKind
    identifier: str
    version: str = ""
    integrity: str = ""
    """The digest as the source gives it, like `sha512-…` or `sha256:…`; empty if unknown."""
    runtime: str = ""
    """The program that runs it: `npx`, `uvx`, `docker`, `dnx`; empty for an address."""

    def __str__(self) -> str:
        return f"{self.identifier}@{self.version}" if self.version else self.identifier


class RegisteredServer(Struct, frozen=True, omit_defaults=True):
    name: str
    """Its name in the registry; where a file has the same one, it goes by `NAME@registry`."""
    entry: JSONObject
    source: ServerOrigin = "manual"
    package: PackagePin | None = None
    marketplace_id: str = ""
    created_at: float = 0.0
    """Unix time in seconds."""
    updated_at: float = 0.0
    """Unix time in seconds of the last change of its entry or package."""

    @property
    def description(self) -> str:
        return str(self.entry.get("description", ""))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(map(str, self.entry.get("tags", ())))

    def to_text(self) -> str:
        return json.dumps(to_builtins(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> RegisteredServer:
        """Parse a server that `to_text` returned.

        Raises:
            ValueError: If the text is something else.
        """
        return convert(json.loads(text), cls)

    def followed_by(
        self, entry: JSONObject, package: PackagePin | None, *, at: float
    ) -> RegisteredServer:
        """The same server with another entry and package; `at` is Unix time in seconds."""
        return replace(self, entry=entry, package=package, updated_at=at)


class ServerSwitch(Struct, frozen=True):
    """The owner's wish that a server is used, or not; whether it works is another matter."""

    is_wanted: bool
    at: float
    """Unix time in seconds."""


ServerSwitches: TypeAlias = Mapping[str, ServerSwitch]
"""Switches by what servers are known as (`trust.server_identity.switched_as`)."""
