"""Rules and overrides without effect on the tools of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.view.view import View


def lint_entries(view: View) -> tuple[Diagnostic, ...]:
    return *lint_rules_of(view), *lint_overrides_of(view)


def lint_rules_of(view: View) -> tuple[Diagnostic, ...]:
    # Compiling patterns is only needed here, so most commands never import them.
    from discovery_engine.rules.rule_lint import lint_rules  # noqa: PLC0415

    return lint_rules(view.settings.tool_rules, [entry.tool for entry in view.catalog])


def lint_overrides_of(view: View) -> tuple[Diagnostic, ...]:
    from discovery_engine.overrides.override_lint import lint_overrides  # noqa: PLC0415

    return lint_overrides(view.settings.overrides, [entry.tool for entry in view.catalog])
