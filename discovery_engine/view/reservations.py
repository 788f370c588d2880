"""For whom a server, tool, resource or prompt is reserved, and by what: for its owner alone.

    visible to  team:finance or user:anna  server payroll  discovery.yaml:3:5
    and to      team:maintainers           tool rule 2     discovery.yaml:9:5

A client must stand for one of the principals of each (see `reserved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import Entry
from discovery_engine.diagnostics import Origin
from discovery_engine.rules.rule import NOBODY

if TYPE_CHECKING:
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.rules.rule_explanation import RuleExplanation, Subject
    from discovery_engine.view.view import View


class Reservation(Struct, frozen=True):
    """A server's entry, or a rule, with `visibleTo`."""

    by: str
    """For instance `server payroll` or `tool rule 2`."""
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
