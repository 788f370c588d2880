"""The one gate: whether a server may be started or reached, whichever door it came by.

A server that its owner named passes. One that was found passes only as the owner saw it: the
approval is bound to what would run, not to the name that it goes by. With a lock file in force
any server must be pinned as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import UntrustedServerError
from discovery_engine.secrets.references import references_in
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_engine.trust.binding import Subject, change_since

if TYPE_CHECKING:
    from discovery_engine.rules.rule import Refusal
    from discovery_engine.trust.decisions import Decisions
    from discovery_engine.trust.lockfile import Lock

Transport: TypeAlias = StdioTransport | RemoteTransport


class Identity(NamedTuple):
    """What a server is, for an approval to be bound to."""

    subject: Subject
    earlier: str | None
    """The digest that stood for it in approvals of earlier versions; None if it cannot be told."""


class Refused(NamedTuple):
    """Why a server is not started."""

    reason: Refusal
    detail: str = ""
    """More of it, for the owner alone."""


def admit(
    server: ServerSettings,
    identify: Callable[[], Identity],
    decisions: Decisions,
    *,
    path: str | None = None,
    lock: Lock | None = None,
) -> None:
    """Let a server pass, or say why not.

    Args:
        server: As it is configured.
        identify: Its identity; only asked of a server that was found.
        decisions: What the owner approved.
        path: The configuration in use.
        lock: What is pinned, if nothing else may be used.

    Raises:
        UntrustedServerError: If it may not be started.
    """
    if refused := refusal(server, identify, decisions, path=path, lock=lock):
        raise UntrustedServerError(server.name, *refused)


def refusal(
    server: ServerSettings,
    identify: Callable[[], Identity],
    decisions: Decisions,
    *,
    path: str | None = None,
    lock: Lock | None = None,
) -> Refused | None:
    """Why `admit` would not let a server pass; None if it would."""
    place = f"see {server.origin}" if server.origin.file else ""
    if lock is not None and not lock.pins_server(server.name, written_identity(server)):
        return Refused("unpinned", place)
    if not server.is_untrusted_origin:
        return None
    approvals = decisions.approvals.get(known_as(server, path), frozenset())
    if not approvals:
        return Refused("untrusted", place)
    now, earlier = identify()
    change = change_since(approvals, now, earlier=earlier)
    return None if change is None else Refused("altered", "; ".join(filter(None, (change, place))))


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
        case StdioTransport() as stdio, StdioTransport(env=written):
            what |= {"program": program, "command": stdio.command, "args": list(stdio.args)}
            what |= {"cwd": stdio.cwd, "env": _bound(written, stdio.env)}
        case RemoteTransport() as remote, RemoteTransport(headers=written):
            what |= {"url": remote.url, "kind": remote.kind}
            what |= {"headers": _bound(written, remote.headers)}
    return fingerprint(canonical_json(what))


def written_identity(server: ServerSettings) -> str:
    """The digest of what an entry says is run or reached: the same on every machine.

    Of variables and headers only the names count.
    """
    what: list[object] = []
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            what = ["stdio", command, list(args), sorted(env), cwd]
        case RemoteTransport(url, headers, kind):
            what = ["remote", url, sorted(name.lower() for name in headers), kind]
    return fingerprint(canonical_json(what))


def known_as(server: ServerSettings, path: str | None) -> str:
    """What a server is known as where decisions are remembered.

    Its name, in the configuration at `path`. Of another file's servers the file is a part of who
    they are, for each project may have its own `db`; without any file it is how they are reached.
    """
    if path is None:
        return f"{server.name} {written_identity(server)}"
    if server.origin.file in ("", path):
        return server.name
    return f"{server.name} {server.origin.file}"


def _bound(written: Mapping[str, str], resolved: Mapping[str, str]) -> dict[str, str]:
    return {
        name: resolved.get(name, text) if _reads_a_file(text) else text
        for name, text in written.items()
    }


def _reads_a_file(text: str) -> bool:
    return any(reference.kind == "file" for reference in references_in(text))
