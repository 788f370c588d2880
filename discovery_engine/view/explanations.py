"""Explanations, for the owner alone, of why something is enabled or hidden, and for whom.

    visible to  team:finance or user:anna  server payroll  discovery.yaml:3:5
    and to      team:maintainers           tool rule 2     discovery.yaml:9:5

A client must stand for one of the principals of each (see `reserved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Entry
from discovery_engine.errors import NotFoundError, Origin
from discovery_engine.rules.rule import NOBODY
from discovery_engine.view.scope import ScopedViews, named_scope

if TYPE_CHECKING:
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.rules.rule import RuleExplanation, Subject
    from discovery_engine.view.view import View


class Reservation(Struct, frozen=True):
    """A server's entry, or a rule, with `visibleTo`."""

    by: str
    """The cause, for instance `server payroll` or `tool rule 2`."""
    principals: tuple[str, ...]
    origin: Origin

    @property
    def text(self) -> str:
        # Of a server whose entry has a mistake nobody knows whom it is for.
        return "its owner alone" if NOBODY in self.principals else " or ".join(self.principals)


def reservations_of_server(settings: Settings, server: ServerSettings) -> tuple[Reservation, ...]:
    """Return the reservations of a server and all that it offers; empty if it is for all."""
    if not settings.reserves:
        return ()
    # Compiling patterns loads a library that a remembered catalog is read without.
    from discovery_engine.rules.ruleset import ServerRules  # noqa: PLC0415

    explained = ServerRules(settings.server_rules).explain(server.name, server.tags, enabled=True)
    own = Reservation(f"server {server.name}", server.visible_to, server.origin)
    return (*([own] if own.principals else ()), *_by_rules(explained, "server"))


def reservations_of(
    view: View, entry: Entry | OfferingEntry, explanation: RuleExplanation
) -> tuple[Reservation, ...]:
    """Return the reservations of a tool, resource or prompt: its server's, then its rules'."""
    thing = entry.tool if isinstance(entry, Entry) else entry.offering
    subject: Subject = "tool" if isinstance(entry, Entry) else entry.offering.subject
    server = view.settings.by_name[thing.server]
    return (*reservations_of_server(view.settings, server), *_by_rules(explanation, subject))


def _by_rules(explanation: RuleExplanation, subject: Subject) -> Iterator[Reservation]:
    for step in explanation.steps:
        # A pattern that was cut off hides as if it matched.
        if step.rule.visible_to and (step.matched or step.too_slow):
            name = f"{subject} rule {step.index + 1}"
            yield Reservation(name, step.rule.visible_to, step.rule.origin)


def explain_tool(view: View, entry: Entry) -> RuleExplanation:
    """Return the effect of each tool rule, and the sentence for the verdict that is in force."""
    from discovery_engine.rules.ruleset import ToolRules  # noqa: PLC0415 - as above

    server = view.catalog.parts[entry.tool.server].verdict
    explanation = ToolRules(view.settings.tool_rules).explain(entry.tool, server)
    if not entry.is_withheld:
        return explanation
    return replace(explanation, verdict=entry.verdict, sentence=view.reason(entry))


def explain_offering(view: View, entry: OfferingEntry) -> RuleExplanation:
    """The same of a resource, a template or a prompt."""
    from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415 - as above

    subject, settings = entry.offering.subject, view.settings
    rules = settings.prompt_rules if subject == "prompt" else settings.resource_rules
    server = view.catalog.parts[entry.offering.server].verdict
    explanation = OfferingRules(rules, subject).explain(entry.offering, server)
    if explanation.verdict == entry.verdict:
        return explanation
    return replace(explanation, verdict=entry.verdict, sentence=view.reason(entry))


def why_hidden(view: View, entry: Entry | OfferingEntry, name: str | None) -> str | None:
    """The reason why a view of the configuration hides an entry; None if it does not."""
    if name is None:
        return None
    reason = ScopedViews(named_scope(view.settings, name)).why_hidden(view, entry)
    return reason or (None if entry.is_visible else "it is not visible without the view")


def why_uri_hidden(view: View, server: str, uri: str, name: str) -> str | None:
    """The reason why a view hides a URI although it shows its template; None if it does not."""
    try:
        ScopedViews(named_scope(view.settings, name)).view(view).resource(server, uri)
    except NotFoundError:
        return "a rule of the view, or a resource that it hides, has this URI"
    return None
