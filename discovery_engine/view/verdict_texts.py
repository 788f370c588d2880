"""Verdicts explained in words: for callers, and for the owner with the place of the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.rules.rule_explanation import Subject, decider, describe, public_decider

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.rules.rule import Rule


def reason(settings: Settings, entry: Entry | OfferingEntry) -> str:
    """Why a tool, a resource or a prompt has its verdict, in a few words."""
    rules, subject = _rules_of(settings, entry)
    return describe(entry.verdict, rules, subject=subject)


def public_reason(entry: Entry | OfferingEntry) -> str:
    """The same for every reader."""
    if isinstance(entry, Entry):
        return public_decider(entry.verdict)
    return public_decider(entry.verdict, subject=entry.offering.subject)


def place(settings: Settings, entry: Entry | OfferingEntry) -> str:
    """Describe what decided its verdict, with the place in the configuration, for the owner."""
    rules, subject = _rules_of(settings, entry)
    return decider(entry.verdict, rules, subject=subject)


def _rules_of(settings: Settings, entry: Entry | OfferingEntry) -> tuple[tuple[Rule, ...], Subject]:
    """The rules that judge it, and what they call it."""
    if isinstance(entry, Entry):
        return settings.tool_rules, "tool"
    subject = entry.offering.subject
    return (settings.prompt_rules if subject == "prompt" else settings.resource_rules), subject
