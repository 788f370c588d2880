"""The digests of a server that approvals and lock files are bound to, and its name there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from msgspec import to_builtins
from msgspec.structs import replace

from discovery_engine.config.settings import (
    REGISTRY,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.secrets.references import references_in
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_engine.trust.approval_subject import ApprovalSubject

Transport: TypeAlias = StdioTransport | RemoteTransport


class Identity(NamedTuple):
    """The identity of a server, for an approval to be bound to."""

    subject: ApprovalSubject
    earlier: str | None
    """The digest that stood for it in approvals of earlier versions; None if unknown."""


def earlier_identity(server: ServerSettings, transport: Transport, program: str = "") -> str:
    """The digest that approvals of earlier versions hold of a server.

    Args:
        server: Its entry, and the file that it stands in.
        transport: The same with every reference resolved; in variables and headers, `${file:…}`.
        program: The path that the command was found at.
    """
    what: dict[str, object] = {"file": server.origin.file, "description": server.description}
    what["bound_to"] = server.bound_to
    match transport, server.transport:
        case StdioTransport() as stdio, StdioTransport(env=texts):
            what |= {"program": program, "command": stdio.command, "args": list(stdio.args)}
            what |= {"cwd": stdio.cwd, "env": _bound(texts, stdio.env)}
        case RemoteTransport() as remote, RemoteTransport(headers=texts, oauth=oauth):
            what |= {"url": remote.url, "kind": remote.kind}
            what |= {"headers": _bound(texts, remote.headers)}
            if oauth.is_given:  # earlier versions had none, so none of their approvals fits
                what |= {"oauth": to_builtins(oauth)}
    return fingerprint(canonical_json(what))


def written_identity(server: ServerSettings) -> str:
    """The digest of the command or address of an entry: the same on every machine.

    Of variables and headers only the names count.
    """
    what: list[object] = []
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            what = ["stdio", command, list(args), sorted(env), cwd]
        case RemoteTransport(url, headers, kind, oauth):
            what = ["remote", url, sorted(name.lower() for name in headers), kind]
            if oauth.is_given:
                what.append(to_builtins(replace(oauth, client_secret="")))
    return fingerprint(canonical_json(what))


def known_as(server: ServerSettings, path: str | None) -> str:
    """Return the key of a server where decisions are remembered.

    It is the server's name, for the servers of the configuration at `path`. The key of another
    file's server contains the file, because each project may have its own `db`; without any file
    it contains how the server is reached.
    """
    if server.is_registered:
        return switched_as(server, path)
    if path is None:
        return f"{server.name} {written_identity(server)}"
    if server.origin.file in ("", path):
        return server.name
    return f"{server.name} {server.origin.file}"


def switched_as(server: ServerSettings, path: str | None) -> str:
    """Return the key under which the owner's switch of a server is remembered.

    It stays the same when another server takes or gives back its name.
    """
    name = server.renamed_from or server.name
    if server.is_registered:
        return f"{REGISTRY}:{name}"  # no name of a server has a colon
    return name if server.origin.file in ("", path) else f"{name} {server.origin.file}"


def _bound(written: Mapping[str, str], resolved: Mapping[str, str]) -> dict[str, str]:
    return {
        name: resolved.get(name, text) if _reads_a_file(text) else text
        for name, text in written.items()
    }


def _reads_a_file(text: str) -> bool:
    return any(reference.kind == "file" for reference in references_in(text))
