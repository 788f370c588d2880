"""Connection parameters of a server: resolved references, the fingerprint and the era.

An *era* is one of the two handshakes of MCP: `server/discover`, or the older `initialize`. The era
of a server is stored under its connection fingerprint, so that the next connect skips the probe.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal, Protocol, TypeAlias

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import asdict, replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import (
    FailureKind,
    MissingValue,
    NeedsConfigError,
    RegistryError,
    UnavailableError,
)
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    UnsetReference,
    references_in,
)
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.tools.model import ServerName, canonical_json, fingerprint

TransportKind: TypeAlias = Literal["stdio", "http", "sse"]
Admit: TypeAlias = Callable[[ServerSettings, StdioTransport | RemoteTransport], None]
"""Raises UntrustedServerError unless the server may be used with this transport."""


class EraMemory(Protocol):
    """Stores eras by connection fingerprint, as a registry store does. Its methods may block."""

    def load_era(self, connection: str) -> JSONObject | None: ...

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        """Store an era; None deletes it."""


class Era(Struct, frozen=True):
    """The transport and the handshake that last worked with a server."""

    kind: TransportKind
    discover: JSONObject | None = None
    """The server's answer to `server/discover`; None for `initialize`."""

    @classmethod
    def from_json(cls, stored: JSONObject | None) -> Era | None:
        """Parse a stored era; None if there is none, or it is invalid."""
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
    """Return the fingerprint of a server's transport, with references unresolved.

    Settings of `oauth` and `sandbox` do not count.
    """
    transport = server.transport
    fields = asdict(transport) if transport else None
    for key in ("oauth", "sandbox"):  # neither changes the era or the tools of a server
        (fields or {}).pop(key, None)
    how = [type(transport).__name__, fields]
    return fingerprint(canonical_json(how))


def resolved_transport(
    server: ServerSettings, secrets: SecretResolver
) -> StdioTransport | RemoteTransport:
    """Return the server's transport with every `${reference}` replaced by its value.

    Raises:
        NeedsConfigError: If values are missing or invalid; its message names each field.
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
    """Resolve the references in an entry's fields; return values by field, and what is missing.

    A field is named by its path, such as `args.0` or `env.TOKEN`. A field is missing if a reference
    has no value, is malformed or not allowed, or if the value cannot be passed on. Relative paths
    in `${file:…}` start at the folder of the file that contains the entry.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    values: dict[str, str] = {}
    missing: list[MissingValue] = []
    for place, text in written_fields(server.transport).items():
        is_apart = _is_kept_apart(place)
        try:
            if is_apart and not server.may_run_commands:
                _refuse_commands(text)
            values[place] = resolve(
                text, secrets, base_dir=base_dir, server=server.secret_owner, has_commands=is_apart
            )
            if wrong := _unsendable(place, values[place]):
                del values[place]
                missing.append(MissingValue(place, "", wrong))
        except UnsetReference as error:
            missing.append(MissingValue(place, error.name, _reason(error)))
        except MalformedReferenceError as error:
            missing.append(MissingValue(place, "", str(error)))
    return values, tuple(missing)


def has_commands(server: ServerSettings) -> bool:
    """Return whether an entry has `${command:…}` references, allowed or not."""
    return bool(_references(written_fields(server.transport).values(), "command"))


def command_references(server: ServerSettings) -> tuple[Reference, ...]:
    """Return the distinct `${command:…}` references of an entry that may be run.

    They are allowed in `env`, `headers` and `oauth` of the owner's own entries.
    """
    if not server.may_run_commands:
        return ()
    fields = written_fields(server.transport).items()
    return _references((text for place, text in fields if _is_kept_apart(place)), "command")


def _references(texts: Iterable[str], kind: str) -> tuple[Reference, ...]:
    """Return the distinct references of a kind, in order."""
    references = (reference for text in texts for reference in references_in(text))
    return tuple(dict.fromkeys(reference for reference in references if reference.kind == kind))


def admitted_transport(
    server: ServerSettings, secrets: SecretResolver, admit: Admit
) -> StdioTransport | RemoteTransport:
    """Return the resolved transport of a server that `admit` accepts.

    The commands of its references are run first, if `admit` accepts the server as configured.

    Raises:
        NeedsConfigError: If values are missing or invalid; its message names each field.
        UntrustedServerError: If `admit` refuses the server.
        UnavailableError: If the entry has no transport.
    """
    run_commands(server, secrets, admit)
    resolved = resolved_transport(server, secrets)
    admit(server, resolved)
    return resolved


def run_commands(server: ServerSettings, secrets: SecretResolver, admit: Admit) -> None:
    """Run each command that an entry refers to, and keep the output as the reference's value.

    Raises:
        UntrustedServerError: If `admit` refuses the server; no command is run then.
    """
    commands = command_references(server)
    if server.transport is None or not commands:
        return
    admit(server, server.transport)  # unresolved: trust in the owner's entries needs no values
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    for command in commands:
        secrets.run(command, base_dir=base_dir)
        with suppress(UnsetReference):
            # Redact the value before the server starts, which may print it at once.
            value = secrets.value(command, base_dir=base_dir)
            KNOWN_SECRETS.add_value(value, "", is_secret=True)


def _is_kept_apart(place: str) -> bool:
    """Return whether a field is hidden from other users of the machine, who see arguments."""
    return place.startswith(("env.", "headers.", "oauth."))


def written_fields(transport: StdioTransport | RemoteTransport | None) -> dict[str, str]:
    """Return the unresolved fields of a transport that may contain references, by path."""
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
    """Return the distinct names in the `${secret:NAME}` references of an entry."""
    references = _references(written_fields(server.transport).values(), "secret")
    return tuple(dict.fromkeys(reference.name for reference in references))


def _refuse_commands(text: str) -> None:
    for reference in references_in(text):
        if reference.kind == "command":
            reason = "runs for servers of the owner's own configuration only"
            raise UnsetReference(reference.redacted()[2:-1], reason)


def _unsendable(place: str, value: str) -> str:
    """Return why a value cannot be passed on: a character would end it early; "" if it can."""
    if place.startswith("headers.") and {"\r", "\n"} & set(value):
        return "its value has a line break, which a header cannot have"
    return "its value has a zero character" if "\0" in value else ""


def secrets_in_arguments(server: ServerSettings) -> tuple[str, ...]:
    """Return the distinct references to stored secrets in a program's arguments."""
    args = server.transport.args if isinstance(server.transport, StdioTransport) else ()
    return tuple(map(str, _references(args, "secret")))


def _reason(error: UnsetReference) -> str:
    """Return why a reference has no value, without paths and commands, since agents read it."""
    kind, colon, _ = error.name.partition(":")
    return f"its {kind} {error.reason}" if colon and kind != "secret" else str(error)


def with_fields(
    transport: StdioTransport | RemoteTransport, values: Mapping[str, str]
) -> StdioTransport | RemoteTransport:
    """Return a copy of the transport with `values` as its fields, by path."""
    match transport:
        case StdioTransport(args=args, env=env):
            return replace(
                transport,
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


# The stored era of one connection. A registry that fails causes a warning only.

logger = logging.getLogger(__name__)


class StoredEra:
    """The stored era of one connection, which its fingerprint identifies."""

    def __init__(self, eras: EraMemory, connection: str, server: ServerName) -> None:
        self._eras = eras
        self._connection = connection
        self._server = server

    async def load(self) -> Era | None:
        """Return the era that last worked; None if none is stored or the registry fails."""
        try:
            load = self._eras.load_era
            return Era.from_json(await to_thread.run_sync(load, self._connection))
        except RegistryError:
            logger.warning("The stored era of %r cannot be loaded", self._server, exc_info=True)
            return None

    async def save(self, era: Era) -> None:
        """Store an era for the next connect, with secrets redacted."""
        await self._write(KNOWN_SECRETS.redact_json(era.to_json()))

    async def delete(self) -> None:
        """Delete the era, so that the next connect probes the server."""
        await self._write(None)

    async def _write(self, era: JSONObject | None) -> None:
        try:
            await to_thread.run_sync(partial(self._eras.save_era, self._connection, era))
        except RegistryError:
            logger.warning("The era of %r cannot be stored", self._server, exc_info=True)
