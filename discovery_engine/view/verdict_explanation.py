"""Why a tool, a resource or a prompt is enabled or disabled: every rule, and what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.errors import NotFoundError
from discovery_engine.rules.ruleset import OfferingRules, ToolRules
from discovery_engine.view.scope import ScopedCatalogs, named_scope

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry, OfferingEntry
    from discovery_engine.rules.rule_explanation import RuleExplanation
    from discovery_engine.view.view import View


def explain_tool(view: View, entry: Entry) -> RuleExplanation:
    """Return the effect of each tool rule, and the sentence for the verdict that is in force."""
    server = view.catalog.parts[entry.tool.server].verdict
    explanation = ToolRules(view.settings.tool_rules).explain(entry.tool, server)
    if not entry.is_withheld:
        return explanation
    return replace(explanation, verdict=entry.verdict, sentence=view.reason(entry))


def explain_offering(view: View, entry: OfferingEntry) -> RuleExplanation:
    """The same of a resource, a template or a prompt."""
    subject, settings = entry.offering.subject, view.settings
    rules = settings.prompt_rules if subject == "prompt" else settings.resource_rules
    server = view.catalog.parts[entry.offering.server].verdict
    explanation = OfferingRules(rules, subject).explain(entry.offering, server)
    if explanation.verdict == entry.verdict:
        return explanation
    return replace(explanation, verdict=entry.verdict, sentence=view.reason(entry))


def why_hidden(view: View, entry: Entry | OfferingEntry, name: str | None) -> str | None:
    """Why a view of the configuration hides it; None if it does not."""
    if name is None:
        return None
    reason = ScopedCatalogs(named_scope(view.settings, name)).why_hidden(view, entry)
    return reason or (None if entry.is_visible else "it is not visible without the view")


def why_uri_hidden(view: View, server: str, uri: str, name: str) -> str | None:
    """Why a view hides a URI although it shows its template; None if it does not."""
    try:
        ScopedCatalogs(named_scope(view.settings, name)).view(view).resource(server, uri)
    except NotFoundError:
        return "a rule of the view, or a resource that it hides, has this URI"
    return None
