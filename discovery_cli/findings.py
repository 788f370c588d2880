"""Findings about rules and overrides, as `lint`, `doctor` and `config validate` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.diagnostics.findings import EntryFinding


def show_finding(output: Output, finding: EntryFinding) -> None:
    output.line(f"{finding.kind}: {finding.message}")
    output.line(f"  hint: {finding.hint}")


def finding_form(finding: EntryFinding) -> JSONObject:
    return {
        "kind": finding.kind,
        "rule": getattr(finding, "rule", None),
        "override": getattr(finding, "override", None),
        "origin": str(finding.origin),
        "message": finding.message,
        "hint": finding.hint,
    }
