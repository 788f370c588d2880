"""How a server is reached: its connection fingerprint, its era, its resolved references.

An *era* is one of the two handshakes of MCP: `server/discover`, or the older `initialize`. The era
of a server is stored under its connection fingerprint, so that the next connect skips the probe.
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
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    UnsetReference,
    references_in,
)
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.tools.model import canonical_json, fingerprint

TransportKind: TypeAlias = Literal["stdio", "http", "sse"]


class EraMemory(Protocol):
    """Stores eras; a registry store is one. Its calls may block."""

    def load_era(self, connection: str) -> JSONObject | None: ...

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        """Store an era; None deletes it."""


class Era(Struct, frozen=True):
    """The transport and the handshake that last worked with a server."""

    kind: TransportKind
    discover: JSONObject | None = None
    """Its answer to `server/discover`; None for `initialize`."""

    @classmethod
    def from_json(cls, stored: JSONObject | None) -> Era | None:
        """None if the stored value is not usable."""
        match stored:
            case {
                "carrier": "stdio" | "http" | "sse" as kind,
                "discover": dict() | None as discover,
            }:
                return cls(kind, discover)
            case _:
                return None

    def to_json(self) -> JSONObject:
        return {"carrier": self.kind, "discover": self.discover}


def connection_fingerprint(server: ServerSettings) -> str:
    """Equal for entries with the same transport; references stay unresolved."""
    transport = server.transport
    fields = asdict(transport) if transport else None
    if isinstance(transport, RemoteTransport) and fields is not None:
        fields.pop("oauth")  # a login changes neither the era nor the tools of a server
    how = [type(transport).__name__, fields]
    return fingerprint(canonical_json(how))


def resolved_transport(
    server: ServerSettings, secrets: SecretResolver
) -> StdioTransport | RemoteTransport:
    """The server's transport with every `${reference}` replaced by its value.

    Raises:
        NeedsConfigError: If references have no value; names each.
        UnavailableError: If the entry has no transport.
    """
    if server.transport is None:
        reason = server.problem.sentence if server.problem else "its entry is not loaded"
        raise UnavailableError(server.name, FailureKind.NEEDS_CONFIG, reason)
    values, missing = resolved_fields(server, secrets)
    if missing:
        raise NeedsConfigError(server.name, missing, server.origin)
    return with_fields(server.transport, values)


def resolved_fields(
    server: ServerSettings, secrets: SecretResolver
) -> tuple[Mapping[str, str], tuple[MissingValue, ...]]:
    """The texts of an entry by place (`args.0`, `env.TOKEN`), with references resolved.

    A text with a reference that has no value is returned as missing instead. Relative paths in
    `${file:…}` start at the folder of the file that contains the entry.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    values: dict[str, str] = {}
    missing: list[MissingValue] = []
    for place, text in written_fields(server.transport).items():
        try:
            values[place] = resolve(text, secrets, base_dir=base_dir, server=server.name)
        except UnsetReference as error:
            missing.append(MissingValue(place, error.name, _reason(error)))
        except MalformedReferenceError as error:
            missing.append(MissingValue(place, "", str(error)))
    return values, tuple(missing)


def written_fields(transport: StdioTransport | RemoteTransport | None) -> dict[str, str]:
    """The texts of a transport that may contain references, by place."""
    match transport:
        case StdioTransport(command, args, env, cwd):
            fields = {"command": command}
            fields |= {f"args.{i}": arg for i, arg in enumerate(args)}
            fields |= {f"env.{name}": text for name, text in env.items()}
            return fields if cwd is None else fields | {"cwd": cwd}
        case RemoteTransport(url, headers, _, oauth):
            named = {"clientId": oauth.client_id, "clientSecret": oauth.client_secret}
            return {
                "url": url,
                **{f"headers.{name}": text for name, text in headers.items()},
                **{f"oauth.{name}": text for name, text in named.items() if text},
            }
        case None:
            return {}


def stored_secrets(server: ServerSettings) -> tuple[str, ...]:
    """The names in `${secret:NAME}` of an entry, each once."""
    texts = written_fields(server.transport).values()
    found = (reference for text in texts for reference in references_in(text))
    return tuple(dict.fromkeys(one.name for one in found if one.kind == "secret"))


def _reason(error: UnsetReference) -> str:
    """Why there is no value, without the path of a file: agents read it as well."""
    return f"its file {error.reason}" if error.name.startswith("file:") else str(error)


def with_fields(
    transport: StdioTransport | RemoteTransport, values: Mapping[str, str]
) -> StdioTransport | RemoteTransport:
    """The transport with these texts instead of its own, by place."""
    match transport:
        case StdioTransport(args=args, env=env):
            return StdioTransport(
                command=values["command"],
                args=tuple(values[f"args.{i}"] for i in range(len(args))),
                env={name: values[f"env.{name}"] for name in env},
                cwd=values.get("cwd"),
            )
        case RemoteTransport(headers=headers, oauth=oauth):
            resolved = {name: values[f"headers.{name}"] for name in headers}
            login = replace(
                oauth,
                client_id=values.get("oauth.clientId", ""),
                client_secret=values.get("oauth.clientSecret", ""),
            )
            return replace(transport, url=values["url"], headers=resolved, oauth=login)
