"""How a server is reached: its fingerprint, its era, and its references made good.

An *era* is one of the two ways to open an MCP connection: `server/discover`, or the older
`initialize`. Which one a server speaks is remembered by its connection fingerprint, so that the
next connect need not ask.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, MissingValue, NeedsConfigError, UnavailableError
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference, resolve
from discovery_engine.tools.model import canonical_json, fingerprint

TransportKind: TypeAlias = Literal["stdio", "http", "sse"]


class EraMemory(Protocol):
    """Where eras are remembered; a registry store is one. Its calls may block."""

    def recall_era(self, connection: str) -> JSONObject | None: ...

    def remember_era(self, connection: str, era: JSONObject | None) -> None:
        """None forgets."""


class Era(Struct, frozen=True):
    """What a server last proved about itself."""

    kind: TransportKind
    discover: JSONObject | None = None
    """Its answer to `server/discover`; None if it wants `initialize`."""

    @classmethod
    def from_json(cls, remembered: JSONObject | None) -> Era | None:
        """None if nothing usable is remembered."""
        match remembered:
            case {
                "carrier": "stdio" | "http" | "sse" as kind,
                "discover": dict() | None as said,
            }:
                return cls(kind, said)
            case _:
                return None

    def to_json(self) -> JSONObject:
        return {"carrier": self.kind, "discover": self.discover}


def connection_fingerprint(server: ServerSettings) -> str:
    """Equal for entries that reach a server in the same way; references stay unresolved."""
    transport = server.transport
    how = [type(transport).__name__, asdict(transport) if transport else None]
    return fingerprint(canonical_json(how))


def resolved_transport(
    server: ServerSettings, environ: Mapping[str, str]
) -> StdioTransport | RemoteTransport:
    """The server's transport with every `${reference}` replaced by its value.

    Raises:
        NeedsConfigError: If references have no value; names each.
        UnavailableError: If the entry says nothing that could be reached.
    """
    if server.transport is None:
        reason = server.problem.sentence if server.problem else "its entry is not loaded"
        raise UnavailableError(server.name, FailureKind.NEEDS_CONFIG, reason)
    values, missing = resolved_fields(server, environ)
    if missing:
        raise NeedsConfigError(server.name, missing, server.origin)
    return with_fields(server.transport, values)


def resolved_fields(
    server: ServerSettings, environ: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[MissingValue, ...]]:
    """The texts of an entry by their places (`args.0`, `env.TOKEN`), with values for references.

    Those of which a reference has no value are missing instead. Relative paths of `${file:…}`
    start at the folder of the file that the entry stands in.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    values: dict[str, str] = {}
    missing: list[MissingValue] = []
    for place, text in written_fields(server.transport).items():
        try:
            values[place] = resolve(text, environ, base_dir=base_dir)
        except UnsetReference as error:
            missing.append(MissingValue(place, error.name, _reason(error)))
        except MalformedReferenceError as error:
            missing.append(MissingValue(place, "", str(error)))
    return values, tuple(missing)


def written_fields(transport: StdioTransport | RemoteTransport | None) -> dict[str, str]:
    """The texts of a transport that may hold references, by their places."""
    match transport:
        case StdioTransport(command, args, env, cwd):
            fields = {"command": command}
            fields |= {f"args.{i}": arg for i, arg in enumerate(args)}
            fields |= {f"env.{name}": text for name, text in env.items()}
            return fields if cwd is None else fields | {"cwd": cwd}
        case RemoteTransport(url, headers, _):
            return {"url": url, **{f"headers.{name}": text for name, text in headers.items()}}
        case None:
            return {}


def _reason(error: UnsetReference) -> str:
    """Why there is no value, without the place of a file: agents read it as well."""
    return f"its file {error.reason}" if error.name.startswith("file:") else str(error)


def with_fields(
    transport: StdioTransport | RemoteTransport, values: Mapping[str, str]
) -> StdioTransport | RemoteTransport:
    """The transport with these texts in place of its own, by their places."""
    match transport:
        case StdioTransport(args=args, env=env):
            return StdioTransport(
                command=values["command"],
                args=tuple(values[f"args.{i}"] for i in range(len(args))),
                env={name: values[f"env.{name}"] for name in env},
                cwd=values.get("cwd"),
            )
        case RemoteTransport(headers=headers):
            resolved = {name: values[f"headers.{name}"] for name in headers}
            return replace(transport, url=values["url"], headers=resolved)
