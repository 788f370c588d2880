"""Shows in full what waits for its owner's approval: every word of what would be started.

Nothing that decides what runs is cut or hidden. The digest of what was shown is what is approved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_cli.scan_findings import suspicion_lines
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.json_forms.candidate_form import oauth_facts, place_of
from discovery_engine.owner.candidates import (
    Candidate,
    findings_in,
    shell_word,
    visible_line,
)
from discovery_engine.secrets.references import redact_literals
from discovery_engine.upstream.shown_values import shown_value

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.scanner import Finding


def candidate_lines(one: Candidate) -> Iterator[str]:
    """All there is to see, one thing on each line, with nothing cut."""
    yield f"{one.server.name}  ({place_of(one)}; {one.refused.reason})"
    if one.refused.refusal == "altered":
        yield f"  {'changed':<8} {visible_line(one.refused.detail)}"
    for name, text in _facts(one):
        yield f"  {name:<8} {text}"
    for note in one.notes:
        yield f"  {'careful':<8} {note}"
    yield from _suspicions(one.findings)


def override_lines(settings: Settings) -> Iterator[str]:
    """The overrides of the file: texts that agents read, and pinned arguments."""
    for override in settings.overrides:
        fields = {"name": override.name, "description": override.description, **override.arguments}
        values = ", ".join(f"{k}: {json.dumps(v)}" for k, v in fields.items() if v is not None)
        tools = ", ".join((*override.servers, *override.patterns))
        yield f"override  {visible_line(tools)}  ({override.origin}; {visible_line(values)})"
        yield from _suspicions(findings_in(override.description or ""))


def _facts(one: Candidate) -> Iterator[tuple[str, str]]:
    match one.server.transport:
        case StdioTransport(command, args, env, cwd, sandbox):
            yield "starts", " ".join(map(shell_word, (command, *args)))
            yield (
                "program",
                shell_word(one.subject.program) if one.subject.program else "not found yet",
            )
            if cwd is not None:
                yield "in", shell_word(cwd)
            if sandbox is not None:
                yield "sandbox", visible_line(str(sandbox))
            for name, text in env.items():
                yield (
                    "env",
                    f"{shell_word(name)}={shell_word(shown_value(name, text, is_secret=True))}",
                )
            for path, digest in one.files.items():
                yield "file", f"{shell_word(path)}  {shell_word(digest)}"
        case RemoteTransport(url, headers, _):
            yield "reaches", shell_word(url)
            for name, text in headers.items():
                yield "header", f"{shell_word(name)}: {shell_word(redact_literals(text))}"
            for name, text in oauth_facts(one.server.transport):
                yield "oauth", f"{name}: {shell_word(text)}"
    if one.server.description:
        yield "description", visible_line(one.server.description)


def _suspicions(findings: Iterable[Finding]) -> Iterator[str]:
    for line in suspicion_lines(findings):
        yield f"  {'careful':<8} {line}"
