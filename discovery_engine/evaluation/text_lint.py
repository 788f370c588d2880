"""What is suspicious in the words of a catalog's servers, read beside those of all others.

Such a finding is no advice to an author: it is a warning about a server, for the owner to judge.
"""

from __future__ import annotations

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.scanner import Finding, Severity, scan_catalog
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.view.view import View

_GRAVEST_FIRST = tuple(Severity)


class Suspicion(Struct, frozen=True):
    """One finding about a tool, or about a server's instructions."""

    subject: ToolKey | ServerName
    finding: Finding
    is_held_back: bool

    @property
    def server(self) -> ServerName:
        return self.subject.server if isinstance(self.subject, ToolKey) else self.subject

    @property
    def hint(self) -> str:
        if self.is_held_back:
            return f"it is held back; `discovery review {self.server}` shows it whole"
        return f"`discovery inspect {self.subject}` shows it; a rule may disable it"

    def to_json(self) -> JSONObject:
        tool = self.subject.tool if isinstance(self.subject, ToolKey) else None
        about = {"server": self.server, "tool": tool, "is_held_back": self.is_held_back}
        return about | self.finding.to_json() | {"hint": self.hint}


def lint_texts(view: View) -> tuple[Suspicion, ...]:
    """Every finding, the gravest first; also about what is disabled or held back."""
    parts = view.catalog.parts
    said = {name: part.said for name, part in parts.items() if part.said}
    held: set[ToolKey | ServerName] = {e.key for e in view.catalog if e.is_withheld}
    held |= {name for name, part in parts.items() if part.new_instructions is not None}
    found = scan_catalog((entry.tool for entry in view.catalog), instructions=said)
    suspicions = [
        Suspicion(subject, finding, subject in held)
        for subject, findings in found.items()
        for finding in findings
    ]
    return tuple(sorted(suspicions, key=lambda one: _GRAVEST_FIRST.index(one.finding.severity)))
