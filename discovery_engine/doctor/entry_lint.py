"""Rules and overrides without effect on the tools of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.rules.rule import Verdict
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.view import View


def lint_entries(view: View) -> tuple[Diagnostic, ...]:
    return *lint_rules_of(view), *lint_overrides_of(view)


def lint_rules_of(view: View) -> tuple[Diagnostic, ...]:
    # Compiling patterns is only needed here, so most commands never import them.
    from discovery_engine.rules.rule_lint import lint_offering_rules, lint_rules  # noqa: PLC0415

    settings = view.settings
    return (
        *lint_rules(settings.tool_rules, [entry.tool for entry in view.catalog]),
        *lint_offering_rules(settings.resource_rules, "resource", _offered(view, "resource")),
        *lint_offering_rules(settings.prompt_rules, "prompt", _offered(view, "prompt")),
    )


def _offered(view: View, subject: str) -> list[tuple[list[Offering], Verdict]]:
    """What each server offers that the rules of this kind judge."""
    return [
        ([e.offering for e in part.offerings if e.offering.subject == subject], part.verdict)
        for part in view.catalog.parts.values()
    ]


def lint_overrides_of(view: View) -> tuple[Diagnostic, ...]:
    from discovery_engine.overrides.override_lint import lint_overrides  # noqa: PLC0415

    return lint_overrides(view.settings.overrides, [entry.tool for entry in view.catalog])
