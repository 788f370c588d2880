"""The findings of the scanner about a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import visible

EXCERPT_LENGTH = 160  # characters


class FindingKind(StrEnum):
    HIDDEN_TEXT = "hidden_text"
    """Characters that are invisible, or that act on a terminal."""
    INSTRUCTION = "instruction"
    """Words that order a model about, against the user or behind their back."""
    CROSS_SERVER = "cross_server"
    """Orders about another server's tools."""
    PAYLOAD = "payload"
    """Encoded text that decodes to one of the others, or to a command."""
    EXFILTRATION = "exfiltration"
    """A request for files, secrets or conversations that the tool has no business with."""
    SECRET = "secret"  # noqa: S105 - the name of a finding
    """A credential in plain text."""
    LOOKALIKE = "lookalike"
    """A name that passes for another server's tool."""


class Severity(StrEnum):
    DANGER = "danger"
    """No honest tool says this, or not all of it together."""
    WARNING = "warning"
    """Worth a look before the tool is used."""
    NOTICE = "notice"
    """Suspicious words that seem to be talked about, not said."""


class Finding(Struct, frozen=True):
    """The evidence of one suspicious text; it is stored with the catalog, and has no hint."""

    kind: FindingKind
    severity: Severity
    where: str
    """The place in the definition: `description`, `inputSchema.properties.path.description`."""
    excerpt: str
    """The words themselves, with hidden characters made visible."""
    message: str

    @property
    def is_alarm(self) -> bool:
        return self.severity is not Severity.NOTICE

    @property
    def is_severe(self) -> bool:
        """True if no honest tool says this."""
        return self.severity is Severity.DANGER

    @property
    def code(self) -> str:
        """The code of a diagnostic about it."""
        return f"TEXT_{self.kind.removesuffix('_text').upper()}"

    def to_json(self) -> JSONObject:
        form: JSONObject = to_builtins(self)
        return {"code": self.code, **form}


Findings: TypeAlias = Mapping[str, tuple[Finding, ...]]
"""By the names of what they are about; who has none is left out."""


def alarms(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are no mere notices."""
    return tuple(finding for finding in findings if finding.is_alarm)


def excerpt(text: str, start: int = 0, end: int | None = None) -> str:
    """The piece of `text` made visible, on one line, cut if it is long."""
    line = visible(" ".join(text[start:end].split()))
    if len(line) <= EXCERPT_LENGTH:
        return line
    return line[: EXCERPT_LENGTH - 1] + "…"
