"""The identity of a server in approvals and lock files, and its key in decisions."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from discovery_engine.config.settings import (
    REGISTRY,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.secrets.references import reads_file
from discovery_engine.tools.model import canonical_json, fingerprint

UNSET = ""
"""Stands for the digest of a reference without a value."""
_SANDBOX = "sandbox"
_BASES = frozenset({"command", "cwd"})  # without these no file can be found


class ApprovalSubject(Struct, frozen=True):
    """The parts of a server that an approval covers, by their places in the entry: `args.0`."""

    entry: Mapping[str, str]
    """The digest of each part of the entry, as written."""
    program: str = ""
    """The path of the program that would be started; empty if it is unknown or there is none."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The digests of referenced values that select what is run or reached, by their places."""
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The digests of the project's files that would be run, by the places that name them."""

    @property
    def digest(self) -> str:
        return fingerprint(canonical_json(self._plain))

    @property
    def is_whole(self) -> bool:
        """True if every value is known, and the program or the address."""
        return UNSET not in self.values.values() and bool(self.program or "url" in self.entry)

    @property
    def _plain(self) -> dict[str, object]:
        files = {place: dict(digests) for place, digests in self.files.items()}
        form = {"entry": dict(self.entry), "values": dict(self.values), "files": files}
        return {**form, "program": self.program}

    def to_text(self, *, at: float, completes: str = "") -> str:
        """Return the text of an approval given `at` a Unix time in seconds.

        `completes` is the digest of an incomplete approval that this one replaces.
        """
        return canonical_json({**self._plain, "at": at, "completes": completes})


class _Approved(Struct, frozen=True):
    text: str
    subject: ApprovalSubject | None
    """None for an approval of an earlier version, which contains only a digest."""
    at: float = 0.0
    completes: str = ""

    @classmethod
    def from_text(cls, text: str) -> _Approved:
        try:
            form = json.loads(text)
            subject = ApprovalSubject(form["entry"], form["program"], form["values"], form["files"])
            return cls(text, subject, form["at"], form["completes"])
        except (KeyError, TypeError, ValueError):
            return cls(text, None)


def change_since(
    approvals: Collection[str], now: ApprovalSubject, *, earlier: str | None
) -> str | None:
    """Return the differences from the nearest approval; None if an approval covers `now`.

    Args:
        approvals: The stored approvals of this server.
        now: The server's current state.
        earlier: The digest of earlier versions for this state; None if unknown.
    """
    valid_approvals = _in_force(approvals)
    if any(_allows(approval, now, earlier) for approval in valid_approvals):
        return None
    changes = [
        (approval, tuple(_differences(approval.subject, now)))
        for approval in valid_approvals
        if approval.subject
    ]
    if not changes:
        return "its entry, its program or a value in it changed since it was approved"
    nearest, differences = min(changes, key=lambda change: (len(change[1]), -change[0].at))
    day = time.strftime("%Y-%m-%d", time.gmtime(nearest.at))
    return f"{'; '.join(differences)} since it was approved on {day}"


def completed_approval(
    approvals: Collection[str], now: ApprovalSubject, *, earlier: str | None, at: float
) -> str | None:
    """Return an approval that completes the one covering `now`; None if none is needed.

    An approval is incomplete if a value, the program or a file was unknown when it was given. `at`
    is Unix time in seconds; for the other arguments see `change_since`.
    """
    if not (now.program or "url" in now.entry):  # the program is not known yet
        return None
    for approval in _in_force(approvals):
        if not _allows(approval, now, earlier):
            continue
        if approval.subject is None:
            text = (
                now.to_text(at=at, completes=fingerprint(approval.text)) if now.is_whole else None
            )
        else:
            filled = _filled_in(approval.subject, now)
            completes = fingerprint(approval.text)
            is_same = filled == approval.subject
            text = None if is_same else filled.to_text(at=approval.at, completes=completes)
        return text
    return None


def _in_force(approvals: Collection[str]) -> Sequence[_Approved]:
    """Parse approvals, and drop those that another one completes."""
    parsed_approvals = [_Approved.from_text(text) for text in sorted(approvals)]
    over = {approval.completes for approval in parsed_approvals}
    return [approval for approval in parsed_approvals if fingerprint(approval.text) not in over]


def _allows(approved: _Approved, now: ApprovalSubject, earlier: str | None) -> bool:
    if approved.subject is None:
        return approved.text == earlier
    return not any(_differences(approved.subject, now))


def _differences(approved: ApprovalSubject, now: ApprovalSubject) -> Iterator[str]:
    # An approval without a sandbox covers the same entry with any sandbox.
    entry = {part: d for part, d in now.entry.items() if part in approved.entry or part != _SANDBOX}
    if parts := _unlike(approved.entry, entry):
        yield f"{' and '.join(parts)} of its entry changed"
        return
    unset = {
        place for subject in (approved, now) for place, v in subject.values.items() if v == UNSET
    }
    for place in _unlike(approved.values, now.values):
        if place not in unset:
            yield f"the value in {place} changed"
    if not now.program or _BASES & unset:  # nothing can be started, or it was left open
        return
    if approved.program not in ("", now.program):
        yield f"the program is {now.program} now, not {approved.program},"
    for place in sorted({*approved.files, *now.files} - unset):
        before, after = approved.files.get(place, {}), now.files.get(place, {})
        for path in _unlike(before, after):
            is_there = "changed" if path in before and path in after else "is another one"
            yield f"the file {path} {is_there}"


def _unlike(left: Mapping[str, str], right: Mapping[str, str]) -> list[str]:
    return [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]


def _filled_in(approved: ApprovalSubject, now: ApprovalSubject) -> ApprovalSubject:
    """Return the approved subject with the values and files that it left open, from `now`."""
    values = {place: digest or now.values[place] for place, digest in approved.values.items()}
    filled = {place for place in values if approved.values[place] == UNSET != values[place]}
    if _BASES & filled:
        return ApprovalSubject(approved.entry, now.program, values, now.files)
    files = {place: digests for place, digests in approved.files.items() if place not in filled}
    files |= {place: digests for place, digests in now.files.items() if place in filled}
    return ApprovalSubject(approved.entry, approved.program or now.program, values, files)


Transport: TypeAlias = StdioTransport | RemoteTransport


class Identity(NamedTuple):
    """A server's identity for approvals."""

    subject: ApprovalSubject
    earlier: str | None
    """The digest of earlier versions for it; None if unknown."""


def earlier_identity(server: ServerSettings, transport: Transport, program: str = "") -> str:
    """Return the digest that earlier versions stored in approvals of a server.

    Args:
        server: The server, with its entry as written.
        transport: The transport with all references resolved.
        program: The path at which the command was found.
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
            if oauth.is_given:  # earlier versions had no `oauth`, so none of their approvals fits
                what |= {"oauth": to_builtins(oauth)}
    return fingerprint(canonical_json(what))


def written_identity(server: ServerSettings) -> str:
    """Return the digest of an entry's command or address, equal on every machine.

    Of environment variables and headers, only the names count.
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
    """Return the key of a server in decisions.

    For servers of the configuration at `path`, it is the name. For servers of another file, it also
    contains the path of that file, because each project may have its own `db`; without a
    configuration file it contains the `written_identity`.
    """
    if server.is_registered:
        return switched_as(server, path)
    if path is None:
        return f"{server.name} {written_identity(server)}"
    if server.origin.file in ("", path):
        return server.name
    return f"{server.name} {server.origin.file}"


def switched_as(server: ServerSettings, path: str | None) -> str:
    """Return the key of the owner's switch for a server.

    It stays the same when another server takes or releases its name.
    """
    name = server.renamed_from or server.name
    if server.is_registered:
        return f"{REGISTRY}:{name}"  # no name of a server has a colon
    return name if server.origin.file in ("", path) else f"{name} {server.origin.file}"


def _bound(values: Mapping[str, str], resolved: Mapping[str, str]) -> dict[str, str]:
    return {
        name: resolved.get(name, text) if reads_file(text) else text
        for name, text in values.items()
    }
