"""Findings about rules and overrides, as `lint`, `doctor` and `config validate` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.overrides.lint import Finding as OverrideFinding
    from discovery_engine.rules.lint import Finding as RuleFinding
    from discovery_engine.view.view import View

    Finding: TypeAlias = RuleFinding | OverrideFinding


def findings_of(view: View) -> tuple[Finding, ...]:
    return *findings_of_rules(view), *findings_of_overrides(view)


def findings_of_rules(view: View) -> tuple[RuleFinding, ...]:
    from discovery_engine.rules.lint import findings

    return findings(view.settings.tool_rules, [entry.tool for entry in view.catalog])


def findings_of_overrides(view: View) -> tuple[OverrideFinding, ...]:
    from discovery_engine.overrides.lint import findings

    return findings(view.settings.overrides, [entry.tool for entry in view.catalog])


def show_finding(output: Output, finding: Finding) -> None:
    output.line(f"{finding.kind}: {finding.message}")
    output.line(f"  hint: {finding.hint}")


def finding_form(finding: Finding) -> JSONObject:
    return {
        "kind": finding.kind,
        "rule": getattr(finding, "rule", None),
        "override": getattr(finding, "override", None),
        "origin": str(finding.origin),
        "message": finding.message,
        "hint": finding.hint,
    }
