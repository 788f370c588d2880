"""What waits for its owner's approval, shown in full: every word of what would be started.

Nothing is cut and nothing is hidden that decides what runs. What is approved is the digest of
what was shown.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_cli.scan_findings import suspicion_lines
from discovery_engine import scanner
from discovery_engine._util.text import visible
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.loading.discovered import restrict
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import UntrustedServerError
from discovery_engine.runtime.restore import open_registry_or_fallback
from discovery_engine.secrets.references import redact_literals, references_in
from discovery_engine.secrets.resolver import EnvironmentResolver, SecretResolver
from discovery_engine.trust.binding import Subject
from discovery_engine.trust.decisions import Approval
from discovery_engine.trust.identity import known_as
from discovery_engine.upstream.connection import resolved_fields
from discovery_engine.upstream.file_digests import is_bound
from discovery_engine.upstream.identity import identity_as_configured, selects_code

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.scanner import Finding
    from discovery_engine.view.view import View


class Candidate(Struct, frozen=True):
    """A server that waits, and what an approval of it would be bound to."""

    server: ServerSettings
    refused: UntrustedServerError
    subject: Subject
    approval: Approval
    notes: tuple[str, ...]

    @property
    def files(self) -> Mapping[str, str]:
        """The project's files that would run, with their digests."""
        return {
            path: digest for files in self.subject.files.values() for path, digest in files.items()
        }

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is suspicious in what its entry has agents told."""
        return _findings(self.server.description)


def candidates(
    view: View, names: Iterable[str], environ: Mapping[str, str], *, at: float
) -> list[Candidate]:
    """The servers that wait for approval; only those that are named, if any is.

    `at` is Unix time in seconds.

    Raises:
        ServerNotFoundError: If a named server is not configured.
    """
    wanted = {view.server(name).name for name in names}
    return [
        _candidate(view.server_settings(refused.server), refused, view.settings, environ, at)
        for refused in view.refusals()
        if refused.refusal != "unpinned" and (not wanted or refused.server in wanted)
    ]


def approve_written(
    invocation: Invocation, target: Path, *, only: Iterable[str] | None = None
) -> None:
    """Take it as the owner's word that this program wrote these servers into `target` for them.

    Only what the owner was asked about counts: not what comes from a project's file, which waits
    for `discovery trust`. None for `only` means all.
    """
    written = load_settings(target.absolute())
    settings = restrict(written)  # as it will be when it is found
    names = {server.name for server in written.servers} if only is None else set(only)
    known = [s for s in written.servers if s.name in names and not s.is_untrusted_origin]
    at, secrets = invocation.clock(), EnvironmentResolver(os.environ)
    approvals = [
        Approval(
            known_as(server, settings.path),
            identity_as_configured(server, secrets, os.environ).subject.to_text(at=at),
        )
        for server in known
    ]
    with open_registry_or_fallback(
        settings, data_dir=invocation.data_dir, environ=os.environ
    ) as store:
        store.approve(scope_of(settings.path), approvals, at=at)


def candidate_lines(one: Candidate) -> Iterator[str]:
    """All there is to see, one thing on each line, with nothing cut."""
    yield f"{one.server.name}  ({one.server.origin}; {one.refused.reason})"
    if one.refused.refusal == "altered":
        yield f"  {'changed':<8} {_one_line(one.refused.detail)}"
    for name, text in _facts(one):
        yield f"  {name:<8} {text}"
    for note in one.notes:
        yield f"  {'careful':<8} {note}"
    yield from _suspicions(one.findings)


def override_lines(settings: Settings) -> Iterator[str]:
    """What the file has agents told, and tools given, in place of what the servers say."""
    for one in settings.overrides:
        said = {"name": one.name, "description": one.description, **one.arguments}
        given = ", ".join(f"{k}: {json.dumps(v)}" for k, v in said.items() if v is not None)
        tools = ", ".join((*one.servers, *one.patterns))
        yield f"override  {_one_line(tools)}  ({one.origin}; {_one_line(given)})"
        yield from _suspicions(_findings(one.description or ""))


def candidate_form(one: Candidate) -> JSONObject:
    form: JSONObject = {
        "name": one.server.name,
        "origin": str(one.server.origin),
        "reason": one.refused.refusal,
        "change": one.refused.detail,
        "identity": one.subject.digest,
        "program": one.subject.program,
        "files": dict(one.files),
        "description": one.server.description,
        "notes": list(one.notes),
        "findings": [finding.to_json() for finding in one.findings],
    }
    match one.server.transport:
        case StdioTransport(command, args, env, cwd):
            return form | {
                "command": [command, *args],
                "env": {name: _shown_value(name, text) for name, text in env.items()},
                "cwd": cwd,
            }
        case RemoteTransport(url, headers, kind):
            hidden = {name: redact_literals(text) for name, text in headers.items()}
            return form | {"url": url, "headers": hidden, "transport": kind}
        case None:
            return form


def _candidate(
    server: ServerSettings,
    refused: UntrustedServerError,
    settings: Settings,
    environ: Mapping[str, str],
    at: float,
) -> Candidate:
    secrets = EnvironmentResolver(environ)
    subject = identity_as_configured(server, secrets, environ).subject
    approval = Approval(known_as(server, settings.path), subject.to_text(at=at))
    return Candidate(server, refused, subject, approval, tuple(_notes(server, subject, secrets)))


def _facts(one: Candidate) -> Iterator[tuple[str, str]]:
    match one.server.transport:
        case StdioTransport(command, args, env, cwd):
            yield "starts", " ".join(map(_word, (command, *args)))
            yield "program", _word(one.subject.program) if one.subject.program else "not found yet"
            if cwd is not None:
                yield "in", _word(cwd)
            for name, text in env.items():
                yield "env", f"{_word(name)}={_word(_shown_value(name, text))}"
            for path, digest in one.files.items():
                yield "file", f"{_word(path)}  {_word(digest)}"
        case RemoteTransport(url, headers, _):
            yield "reaches", _word(url)
            for name, text in headers.items():
                yield "header", f"{_word(name)}: {_word(redact_literals(text))}"
    if one.server.description:
        yield "says", _one_line(one.server.description)


def _findings(description: str) -> tuple[Finding, ...]:
    return scanner.alarms(scanner.scan_text(description, where="description"))


def _suspicions(findings: Iterable[Finding]) -> Iterator[str]:
    for line in suspicion_lines(findings):
        yield f"  {'careful':<8} {line}"


def _notes(server: ServerSettings, subject: Subject, secrets: SecretResolver) -> Iterator[str]:
    _, missing = resolved_fields(server, secrets)
    for one in missing:
        way = f": `export {one.reference}=…` before it starts" if one.is_variable else ""
        yield f"{one.field}: {_one_line(one.reason)}{way}"
    transport = server.transport
    if not isinstance(transport, StdioTransport):
        return
    for name in transport.env:
        if selects_code(name):
            yield f"{_word(name)} decides what is loaded or run"
    if any(r.kind == "file" for text in transport.args for r in references_in(text)):
        yield "an argument is what a file holds; the approval ends when that changes"
    for files in subject.files.values():
        for path, digest in files.items():
            if not is_bound(digest):
                yield f"{_word(path)} {_word(digest)}: its content is not bound by the approval"


def _shown_value(name: str, text: str) -> str:
    """A value that decides what runs is shown; any other may be a secret."""
    return text if selects_code(name) else redact_literals(text)


def _word(text: str) -> str:
    return shlex.quote(_one_line(text))


def _one_line(text: str) -> str:
    """Everything that a terminal would not show as it is, written out."""
    return visible(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")
