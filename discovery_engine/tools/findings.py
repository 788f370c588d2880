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
    """Instructions to a model that work against the user, or behind their back."""
    CROSS_SERVER = "cross_server"
    """Instructions about another server's tools."""
    PAYLOAD = "payload"
    """Encoded text that decodes to another kind of finding, or to a command."""
    EXFILTRATION = "exfiltration"
    """A request for files, secrets or conversations that the tool has no business with."""
    SECRET = "secret"  # noqa: S105 - the name of a finding
    """A credential in plain text."""
    LOOKALIKE = "lookalike"
    """A name that imitates that of another server's tool."""


class Severity(StrEnum):
    DANGER = "danger"
    """Text that no honest tool has, or not in this combination."""
    WARNING = "warning"
    """Text that the owner should read before the tool is used."""
    NOTICE = "notice"
    """Suspicious words that seem to be mentioned, not meant."""


class Finding(Struct, frozen=True):
    """A suspicious text, with the evidence; stored with the catalog, without a hint."""

    kind: FindingKind
    severity: Severity
    where: str
    """The place in the definition: `description`, `inputSchema.properties.path.description`."""
    excerpt: str
    """The suspicious text, with hidden characters made visible."""
    message: str

    @property
    def is_alarm(self) -> bool:
        return self.severity is not Severity.NOTICE

    @property
    def is_severe(self) -> bool:
        """True if no honest tool has such a text."""
        return self.severity is Severity.DANGER

    @property
    def code(self) -> str:
        """The code of a diagnostic about it."""
        return f"TEXT_{self.kind.removesuffix('_text').upper()}"

    def to_json(self) -> JSONObject:
        form: JSONObject = to_builtins(self)
        return {"code": self.code, **form}


Findings: TypeAlias = Mapping[str, tuple[Finding, ...]]
"""Findings by the key of their definition; definitions without findings are left out."""


def alarms(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that are more than notices."""
    return tuple(finding for finding in findings if finding.is_alarm)


def excerpt(text: str, start: int = 0, end: int | None = None) -> str:
    """Return `text[start:end]` on one line, with hidden characters visible, cut if it is long."""
    line = visible(" ".join(text[start:end].split()))
    if len(line) <= EXCERPT_LENGTH:
        return line
    return line[: EXCERPT_LENGTH - 1] + "…"
