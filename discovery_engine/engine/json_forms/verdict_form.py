"""Verdicts: the rule that decided, and what every other rule did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_engine.engine.json_forms.tool_form import overridden_form, requests_form

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry, OfferingEntry
    from discovery_engine.rules.rule_explanation import RuleExplanation, Step
    from discovery_engine.view.reservations import Reservation
    from discovery_engine.view.view import View


def explained_tool_form(entry: Entry, explanation: RuleExplanation, view: View) -> JSONObject:
    return {
        "tool": entry.tool.name,
        **verdict_form(entry.tool.server, entry, explanation),
        "overridden": overridden_form(entry, view),
        "typical_requests": requests_form(entry, view),
    }


def verdict_form(
    server: str, entry: Entry | OfferingEntry, explanation: RuleExplanation
) -> JSONObject:
    deciding = explanation.deciding
    return {
        "server": server,
        "enabled": explanation.verdict.enabled,
        "reason": explanation.sentence,
        "tags": list(entry.verdict.tags),
        "deciding_rule": deciding.index if deciding else None,
        "rules": [_step_form(step) for step in explanation.steps],
    }


def visible_to_form(reserved: Iterable[Reservation]) -> JSONObject:
    """For whom it is reserved, and by what; for the owner alone."""
    forms = [
        {
            "by": reservation.by,
            "principals": list(reservation.principals),
            "origin": str(reservation.origin),
        }
        for reservation in reserved
    ]
    return {"visible_to": forms}


def _step_form(step: Step) -> JSONObject:
    return {
        "index": step.index,
        "origin": str(step.rule.origin),
        "patterns": list(step.rule.patterns),
        "enabled": step.rule.enabled,
        "matched": step.matched,
        "decided": step.decided,
        "too_slow": step.too_slow,
        "tags": list(step.tags),
    }
