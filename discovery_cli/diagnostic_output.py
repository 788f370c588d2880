"""Diagnostics of rules, overrides and tools, as `lint` and `config validate` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine._util.text import one_line

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.diagnostics import Diagnostic

# What stood under `kind` before there were codes; scripts may still read it.
_KINDS = {
    "RULE_UNMATCHED": "matches nothing",
    "RULE_SHADOWED": "shadowed",
    "RULE_CONTRADICTED": "contradicts",
    "OVERRIDE_UNMATCHED": "matches nothing",
    "TOOL_CONFUSABLE": "confusable",
    "TOOL_NAME_CROWDED": "crowded name",
    "TOOL_UNDESCRIBED": "no description",
    "OFFERING_UNDESCRIBED": "no description",
    "PROMPT_ARGUMENTS_UNDESCRIBED": "undocumented",
    "TOOL_UNFINDABLE": "not found",
    "TOOL_ARGUMENTS_UNDESCRIBED": "undocumented",
    "TOOL_SCHEMA_LARGE": "oversized",
    "TOOL_SCHEMA_COSTLY": "costly schema",
}


def show_diagnostic(output: Output, found: Diagnostic) -> None:
    """The message, which names what it is about, with its code; and the hint."""
    output.line(one_line(f"{found.severity}: {found.message} [{found.code}]"))
    output.line(f"  hint: {one_line(output.hint(found.hint))}")


def finding_form(found: Diagnostic) -> JSONObject:
    return found.to_json() | {"kind": _KINDS[found.code]}


def entry_form(found: Diagnostic) -> JSONObject:
    """The same for a rule or an override, with its index."""
    section, _, index = found.subject.partition(".")
    return finding_form(found) | {
        "rule": int(index) if section == "toolRules" else None,
        "override": int(index) if section == "overrides" else None,
        "origin": str(found.origin),
    }
