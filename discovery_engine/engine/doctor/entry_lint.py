"""Rules and overrides without effect on the tools of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.errors import Diagnostic
from discovery_engine.rules.overrides.override import Override
from discovery_engine.tools.model import Tool

if TYPE_CHECKING:
    from discovery_engine.rules.rule import Rule, Verdict
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.view import View

_KEYS = {"toolRules": "rules"}  # of a view, where they differ from those of the configuration


def lint_entries(view: View) -> tuple[Diagnostic, ...]:
    return *lint_rules_of(view), *lint_overrides_of(view)


def lint_rules_of(view: View) -> tuple[Diagnostic, ...]:
    """Lint the rules of the configuration and of its views, both on all that is known."""
    settings = view.settings
    own = _lint(view, settings.tool_rules, settings.resource_rules, settings.prompt_rules)
    of_views = (
        replace(finding, subject=f"views.{view_settings.name}.{_KEYS.get(key, key)}.{index}")
        for view_settings in settings.views
        for finding in _lint(
            view, view_settings.rules, view_settings.resource_rules, view_settings.prompt_rules
        )
        for key, _, index in [finding.subject.partition(".")]
    )
    return *own, *of_views


def _lint(
    view: View, tool_rules: Sequence[Rule], resource_rules: Sequence[Rule], prompts: Sequence[Rule]
) -> tuple[Diagnostic, ...]:
    # Compiling patterns is only needed here, so most commands never import them.
    from discovery_engine.rules.rule_lint import lint_offering_rules, lint_rules  # noqa: PLC0415

    if not (tool_rules or resource_rules or prompts):
        return ()
    return (
        *lint_rules(tool_rules, [entry.tool for entry in view.catalog]),
        *lint_offering_rules(resource_rules, "resource", _offered(view, "resource")),
        *lint_offering_rules(prompts, "prompt", _offered(view, "prompt")),
    )


def _offered(view: View, subject: str) -> list[tuple[list[Offering], Verdict]]:
    """Return each server's offerings that rules of this kind judge, with its own verdict."""
    return [
        ([e.offering for e in part.offerings if e.offering.subject == subject], part.verdict)
        for part in view.catalog.parts.values()
    ]


def lint_overrides_of(view: View) -> tuple[Diagnostic, ...]:

    return _lint_overrides(view.settings.overrides, [entry.tool for entry in view.catalog])


# A diagnostic is advice, as one about a rule is: the tool may be one that is not known yet.


def _lint_overrides(entries: Sequence[Override], tools: Iterable[Tool]) -> tuple[Diagnostic, ...]:
    """At most one diagnostic for each of `entries`, in their order.

    `tools` are all that are known, with these entries applied; without any nothing is found.
    """
    listed_tools = list(tools)
    effective = {index for tool in listed_tools for index in tool.overridden.by}
    return tuple(_unmatched(entries, effective)) if listed_tools else ()


def _unmatched(entries: Sequence[Override], effective: set[int]) -> Iterator[Diagnostic]:
    for index, entry in enumerate(entries):
        if index not in effective:
            place = f" ({entry.origin})" if str(entry.origin) else ""
            yield Diagnostic(
                "OVERRIDE_UNMATCHED",
                f"override {index + 1}{place} matches no tool of the catalog",
                "its pattern reads the name that the server gave; check how it is spelled, and"
                " whether its server has been listed",
                f"overrides.{index}",
                entry.origin,
            )
