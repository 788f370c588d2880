"""Rules and overrides without effect on the tools of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from discovery_engine.overrides.override_lint import OverrideFinding
    from discovery_engine.rules.rule_lint import RuleFinding
    from discovery_engine.view.view import View

    EntryFinding: TypeAlias = RuleFinding | OverrideFinding


def entry_findings(view: View) -> tuple[EntryFinding, ...]:
    return *rule_findings(view), *override_findings(view)


def rule_findings(view: View) -> tuple[RuleFinding, ...]:
    # Compiling patterns is only needed here, so most commands never import them.
    from discovery_engine.rules.rule_lint import findings  # noqa: PLC0415

    return findings(view.settings.tool_rules, [entry.tool for entry in view.catalog])


def override_findings(view: View) -> tuple[OverrideFinding, ...]:
    from discovery_engine.overrides.override_lint import findings  # noqa: PLC0415

    return findings(view.settings.overrides, [entry.tool for entry in view.catalog])
