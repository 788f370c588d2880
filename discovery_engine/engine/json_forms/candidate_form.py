"""Servers that wait for approval: every word of what would be started.

Nothing is cut, and nothing is hidden that decides what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.config.serialization import serialize_oauth
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.engine.owner.candidates import findings_in
from discovery_engine.secrets.references import redact_literals
from discovery_engine.upstream.identity import shown_value

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.owner.candidates import Candidate


def candidate_form(one: Candidate) -> JSONObject:
    form: JSONObject = {
        "name": one.server.name,
        "origin": place_of(one),
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
        case StdioTransport(command, args, env, cwd, sandbox):
            return form | {
                "command": [command, *args],
                "env": {
                    name: shown_value(name, text, is_secret=True) for name, text in env.items()
                },
                "cwd": cwd,
                "sandbox": to_builtins(sandbox) if sandbox else None,
            }
        case RemoteTransport(url, headers, kind):
            hidden = {name: redact_literals(text) for name, text in headers.items()}
            form |= {"url": url, "headers": hidden, "transport": kind}
            return form | {"oauth": dict(oauth_facts(one.server.transport))}
        case None:
            return form


def override_forms(settings: Settings) -> list[JSONObject]:
    """The overrides of the file: texts that agents read, and pinned arguments."""
    return [
        {
            "origin": str(override.origin),
            "servers": list(override.servers),
            "tools": list(override.patterns),
            "name": override.name,
            "description": override.description,
            "arguments": to_builtins(override.arguments),
            "findings": [finding.to_json() for finding in findings_in(override.description or "")],
        }
        for override in settings.overrides
    ]


def place_of(one: Candidate) -> str:
    """Where its entry stands: in a file, or the registry."""
    return str(one.server.origin) or one.server.source


def oauth_facts(remote: RemoteTransport) -> Iterator[tuple[str, str]]:
    """The keys of `oauth` that are given; a secret only as its reference."""
    for name, value in serialize_oauth(remote).items():
        yield name, value if isinstance(value, str) else " ".join(value)
