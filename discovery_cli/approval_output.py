"""What waits for its owner's approval, shown in full: every word of what would be started.

Nothing is cut and nothing is hidden that decides what runs. What is approved is the digest of
what was shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_cli.scan_findings import suspicion_lines
from discovery_engine.config.serialization import serialize_oauth
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.owner.candidates import (
    Candidate,
    findings_in,
    shell_word,
    visible_line,
)
from discovery_engine.secrets.references import redact_literals
from discovery_engine.upstream.identity import selects_code

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.scanner import Finding


def candidate_lines(one: Candidate) -> Iterator[str]:
    """All there is to see, one thing on each line, with nothing cut."""
    yield f"{one.server.name}  ({one.server.origin}; {one.refused.reason})"
    if one.refused.refusal == "altered":
        yield f"  {'changed':<8} {visible_line(one.refused.detail)}"
    for name, text in _facts(one):
        yield f"  {name:<8} {text}"
    for note in one.notes:
        yield f"  {'careful':<8} {note}"
    yield from _suspicions(one.findings)


def override_lines(settings: Settings) -> Iterator[str]:
    """The overrides of the file: texts that agents read, and pinned arguments."""
    for one in settings.overrides:
        fields = {"name": one.name, "description": one.description, **one.arguments}
        given = ", ".join(f"{k}: {json.dumps(v)}" for k, v in fields.items() if v is not None)
        tools = ", ".join((*one.servers, *one.patterns))
        yield f"override  {visible_line(tools)}  ({one.origin}; {visible_line(given)})"
        yield from _suspicions(findings_in(one.description or ""))


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
            form |= {"url": url, "headers": hidden, "transport": kind}
            return form | {"oauth": dict(_oauth_facts(one.server.transport))}
        case None:
            return form


def _facts(one: Candidate) -> Iterator[tuple[str, str]]:
    match one.server.transport:
        case StdioTransport(command, args, env, cwd):
            yield "starts", " ".join(map(shell_word, (command, *args)))
            yield (
                "program",
                shell_word(one.subject.program) if one.subject.program else "not found yet",
            )
            if cwd is not None:
                yield "in", shell_word(cwd)
            for name, text in env.items():
                yield "env", f"{shell_word(name)}={shell_word(_shown_value(name, text))}"
            for path, digest in one.files.items():
                yield "file", f"{shell_word(path)}  {shell_word(digest)}"
        case RemoteTransport(url, headers, _):
            yield "reaches", shell_word(url)
            for name, text in headers.items():
                yield "header", f"{shell_word(name)}: {shell_word(redact_literals(text))}"
            for name, text in _oauth_facts(one.server.transport):
                yield "oauth", f"{name}: {shell_word(text)}"
    if one.server.description:
        yield "description", visible_line(one.server.description)


def _oauth_facts(remote: RemoteTransport) -> Iterator[tuple[str, str]]:
    """The keys of `oauth` that are given; a secret only as its reference."""
    for name, value in serialize_oauth(remote).items():
        yield name, value if isinstance(value, str) else " ".join(value)


def _suspicions(findings: Iterable[Finding]) -> Iterator[str]:
    for line in suspicion_lines(findings):
        yield f"  {'careful':<8} {line}"


def _shown_value(name: str, text: str) -> str:
    """A value that decides what runs is shown; any other may be a secret."""
    return text if selects_code(name) else redact_literals(text)
