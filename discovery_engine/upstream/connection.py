"""How a server is reached: its fingerprint, its era, and its references made good.

An *era* is one of the two ways to open an MCP connection: `server/discover`, or the older
`initialize`. Which one a server speaks is remembered by its connection fingerprint, so that the
next connect need not ask.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, NeedsConfigError, UnavailableError
from discovery_engine.secrets import MalformedReferenceError, UnsetReference, resolve
from discovery_engine.tools import JSONObject, canonical_json, fingerprint

Carrier: TypeAlias = Literal["stdio", "http", "sse"]


class EraMemory(Protocol):
    """Where eras are remembered; a registry store is one. Its calls may block."""

    def recall_era(self, connection: str) -> JSONObject | None: ...

    def remember_era(self, connection: str, era: JSONObject | None) -> None:
        """None forgets."""


class Era(Struct, frozen=True):
    """What a server last proved about itself."""

    carrier: Carrier
    discover: JSONObject | None = None
    """Its answer to `server/discover`; None if it wants `initialize`."""

    @classmethod
    def from_json(cls, remembered: JSONObject | None) -> Era | None:
        """None if nothing usable is remembered."""
        match remembered:
            case {
                "carrier": "stdio" | "http" | "sse" as carrier,
                "discover": dict() | None as said,
            }:
                return cls(carrier, said)
            case _:
                return None

    def to_json(self) -> JSONObject:
        return {"carrier": self.carrier, "discover": self.discover}


def connection_fingerprint(server: ServerSettings) -> str:
    """Equal for entries that reach a server in the same way; references stay unresolved."""
    transport = server.transport
    how = [type(transport).__name__, asdict(transport) if transport else None]
    return fingerprint(canonical_json(how))


def resolved_transport(
    server: ServerSettings, environ: Mapping[str, str]
) -> StdioTransport | RemoteTransport:
    """The server's transport with every `${reference}` replaced by its value.

    Relative paths of `${file:…}` start at the folder of the file that the entry stands in.

    Raises:
        NeedsConfigError: If a reference has no value; names the field.
        UnavailableError: If the entry says nothing that could be reached.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""

    def value(field: str, text: str) -> str:
        try:
            return resolve(text, environ, base_dir=base_dir)
        except (UnsetReference, MalformedReferenceError) as error:
            raise NeedsConfigError(server.name, field, str(error)) from error

    match server.transport:
        case StdioTransport() as stdio:
            return _resolved_stdio(stdio, value)
        case RemoteTransport() as remote:
            headers = {k: value(f"headers.{k}", v) for k, v in remote.headers.items()}
            return replace(remote, url=value("url", remote.url), headers=headers)
        case None:
            reason = server.problem.sentence if server.problem else "its entry is not loaded"
            raise UnavailableError(server.name, FailureKind.NEEDS_CONFIG, reason)


def _resolved_stdio(stdio: StdioTransport, value: Callable[[str, str], str]) -> StdioTransport:
    return StdioTransport(
        command=value("command", stdio.command),
        args=tuple(value(f"args.{i}", arg) for i, arg in enumerate(stdio.args)),
        env={name: value(f"env.{name}", text) for name, text in stdio.env.items()},
        cwd=None if stdio.cwd is None else value("cwd", stdio.cwd),
    )
