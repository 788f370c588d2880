"""The servers that wait for their owner's approval, with all that an approval is bound to.

Making a candidate reads the files of the project that would run, so it is done in a thread.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.text import visible
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.errors import UntrustedServerError
from discovery_engine.secrets.references import references_in
from discovery_engine.trust import scanner
from discovery_engine.trust.decisions import Approval
from discovery_engine.trust.server_identity import ApprovalSubject, known_as
from discovery_engine.upstream.connection import resolved_fields, stored_secrets
from discovery_engine.upstream.file_digests import is_bound
from discovery_engine.upstream.identity import Programs, identity_as_configured, selects_code

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.trust.scanner import Finding
    from discovery_engine.view.view import View


class Candidate(Struct, frozen=True):
    """A server that waits, and what an approval of it would be bound to."""

    server: ServerSettings
    refused: UntrustedServerError
    subject: ApprovalSubject
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
        """Suspicious passages of the description that agents read."""
        return findings_in(self.server.description)


def candidates(
    view: View,
    names: Iterable[str],
    secrets: SecretResolver,
    environ: Mapping[str, str],
    *,
    at: float,
) -> list[Candidate]:
    """The servers that wait for approval; only those that are named, if any is.

    `at` is Unix time in seconds.

    Raises:
        ServerNotFoundError: If a named server is not configured.
    """
    selection = {view.server_settings(name).name for name in names}
    make = partial(candidate_of, settings=view.settings, secrets=secrets, environ=environ, at=at)
    return [
        make(view.server_settings(refused.server), refused)
        for refused in view.refusals()
        if refused.refusal != "unpinned" and (not selection or refused.server in selection)
    ]


def approval_of(
    server: ServerSettings,
    settings: Settings,
    secrets: SecretResolver,
    environ: Mapping[str, str],
    *,
    at: float,
    programs: Programs | None = None,
) -> Approval:
    """An approval of a server as it is now; `at` is Unix time in seconds.

    `programs` are as `identity_as_configured` takes them.
    """
    subject = identity_as_configured(server, secrets, environ, programs=programs).subject
    return _approval(server, settings, subject, at)


def _approval(
    server: ServerSettings, settings: Settings, subject: ApprovalSubject, at: float
) -> Approval:
    return Approval(known_as(server, settings.path), subject.to_text(at=at))


def findings_in(description: str) -> tuple[Finding, ...]:
    """Return what is suspicious in a text of the configuration that agents read."""
    return scanner.alarms(scanner.scan_text(description, where="description"))


def shell_word(text: str) -> str:
    return shlex.quote(visible_line(text))


def visible_line(text: str) -> str:
    """Text on one line, with everything that a terminal would not show written out."""
    return visible(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def candidate_of(
    server: ServerSettings,
    refused: UntrustedServerError,
    settings: Settings,
    secrets: SecretResolver,
    environ: Mapping[str, str],
    at: float,
) -> Candidate:
    """A server that was refused, as `candidates` makes it.

    `at` is Unix time in seconds.
    """
    subject = identity_as_configured(server, secrets, environ).subject
    approval = _approval(server, settings, subject, at)
    return Candidate(server, refused, subject, approval, tuple(_notes(server, subject, secrets)))


def _notes(
    server: ServerSettings, subject: ApprovalSubject, secrets: SecretResolver
) -> Iterator[str]:
    _, missing = resolved_fields(server, secrets)
    for gap in missing:
        way = f": `export {gap.reference}=…` before it starts" if gap.is_variable else ""
        yield f"{gap.field}: {visible_line(gap.reason)}{way}"
    for name in stored_secrets(server):
        yield f"it gets the stored secret {shell_word(name)}"
    transport = server.transport
    if not isinstance(transport, StdioTransport):
        return
    for name in transport.env:
        if selects_code(name):
            yield f"{shell_word(name)} decides what is loaded or run"
    if any(r.kind == "file" for text in transport.args for r in references_in(text)):
        yield "an argument is what a file holds; the approval ends when that changes"
    for files in subject.files.values():
        for path, digest in files.items():
            if not is_bound(digest):
                label = f"{shell_word(path)} {shell_word(digest)}"
                yield f"{label}: its content is not bound by the approval"
