"""Suspicious texts of a catalog's servers, read beside those of all others.

A finding is no advice to an author: it is a warning about a server, for the owner to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from discovery_engine._util.json import JSONObject
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.diagnostics import Severity as DiagnosticSeverity
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.trust.scanner import Finding, Severity, scan, scan_catalog
from discovery_engine.view.view import View

Subject: TypeAlias = ToolKey | Offering | ServerName

_GRAVEST_FIRST = tuple(Severity)

_SEVERITIES: Mapping[Severity, DiagnosticSeverity] = {
    Severity.DANGER: "error",
    Severity.WARNING: "warning",
    Severity.NOTICE: "info",
}


class Suspicion(Diagnostic, frozen=True, kw_only=True):
    """One finding about what a server offers, or about its instructions."""

    about: Subject
    finding: Finding
    is_held_back: bool

    @property
    def severity(self) -> DiagnosticSeverity:
        """That of the text: what is a danger in one place may be harmless in another."""
        return _SEVERITIES[self.finding.severity]

    @property
    def server(self) -> ServerName:
        return self.about if isinstance(self.about, str) else self.about.server

    @property
    def label(self) -> str:
        """The name of what it is about, as one line of output shows it."""
        match self.about:
            case Offering() as offering:
                return f"{offering.kind.label} {offering.label}"
            case ToolKey() as key:
                return key.label
        return self.about

    def to_json(self) -> JSONObject:
        tool = self.about.tool if isinstance(self.about, ToolKey) else None
        offering = self.about.decision_key if isinstance(self.about, Offering) else None
        about = {"server": self.server, "tool": tool, "offering": offering}
        held = {"is_held_back": self.is_held_back}
        return Diagnostic.to_json(self) | about | held | self.finding.to_json()


def _suspicion(about: Subject, finding: Finding, *, is_held_back: bool) -> Suspicion:
    server = about if isinstance(about, str) else about.server
    hint = _hint(about)
    if is_held_back:
        hint = f"it is withheld; `discovery review {server}` shows it whole"
    return Suspicion(
        code=finding.code,
        message=finding.message,
        hint=hint,
        subject=f"{server}:{about.decision_key}" if isinstance(about, Offering) else str(about),
        excerpt=finding.excerpt,
        about=about,
        finding=finding,
        is_held_back=is_held_back,
    )


def _hint(about: Subject) -> str:
    if not isinstance(about, Offering):
        return f"`discovery inspect {about}` shows it; a rule may disable it"
    is_prompt = about.kind is OfferingKind.PROMPT
    listing, section = ("prompts", "promptRules") if is_prompt else ("resources", "resourceRules")
    return f"`discovery {listing} --json` shows it; a rule of `{section}` may disable it"


def lint_texts(view: View) -> tuple[Suspicion, ...]:
    """Every finding, the gravest first; also about what is disabled or withheld."""
    parts = view.catalog.parts
    instructions = {
        name: text for name, part in parts.items() if (text := part.present_instructions)
    }
    held: set[ToolKey | ServerName] = {e.key for e in view.catalog if e.is_withheld}
    held |= {name for name, part in parts.items() if part.new_instructions is not None}
    findings_by_subject = scan_catalog(
        (entry.tool for entry in view.catalog), instructions=instructions
    )
    suspicions = [
        _suspicion(subject, finding, is_held_back=subject in held)
        for subject, findings in findings_by_subject.items()
        for finding in findings
    ]
    suspicions += [
        _suspicion(entry.offering, finding, is_held_back=entry.is_withheld)
        for part in parts.values()
        for entry in part.offerings
        for finding in scan(entry.offering)
    ]
    return tuple(
        sorted(suspicions, key=lambda suspicion: _GRAVEST_FIRST.index(suspicion.finding.severity))
    )
