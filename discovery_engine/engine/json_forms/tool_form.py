"""Tools: in a line of a list, and in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.engine.json_forms.example_call import arguments, command_line
from discovery_engine.tools.signature import signature

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.view.view import View


def tool_form(entry: Entry, view: View) -> JSONObject:
    return {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "summary": entry.tool.summary,
        "enabled": entry.verdict.enabled,
        "reason": view.reason(entry),
        "tags": list(entry.verdict.tags),
    }


def details_form(entry: Entry, view: View) -> JSONObject:
    tool = entry.tool
    return tool_form(entry, view) | {
        "title": tool.title,
        "description": tool.description,
        "signature": signature(tool),
        "parameters": parameter_forms(entry),
        "annotations": tool.annotations,
        "input_schema": tool.input_schema,
        "output_schema": tool.definition.get("outputSchema"),
        "examples": [{"arguments": arguments(entry), "command": command_line(entry)}],
        "fingerprint": tool.fingerprint,
        "findings": [finding.to_json() for finding in view.findings(entry)],
        "overridden": overridden_form(entry, view),
    }


def examples_of(entry: Entry, view: View) -> Examples | None:
    """The typical requests by which search finds a tool, and where they are from."""
    part = view.catalog.part(entry.tool.server)
    return view.book.of_tools([sibling.tool for sibling in part.entries]).get(
        entry.tool.upstream_name
    )


def requests_form(entry: Entry, view: View) -> JSONObject | None:
    examples = examples_of(entry, view)
    if examples is None:
        return None
    return {"texts": list(examples.texts), "source": str(examples.source), "note": examples.note}


def overridden_form(entry: Entry, view: View) -> JSONObject:
    """The overrides of a tool; for pinned arguments only the names."""
    tool = entry.tool
    by = [(index, view.settings.overrides[index]) for index in tool.overridden.by]
    return {
        "given_name": tool.given_name,
        "overrides": [
            {"index": index, "origin": str(override.origin), "gives": override.gives()}
            for index, override in by
        ],
        "pinned": list(tool.overridden.pinned),
        "problems": list(tool.overridden.problems),
    }


def parameter_forms(entry: Entry) -> list[JSONObject]:
    """Required parameters first, then by name."""
    return [
        {
            "name": parameter.name,
            "type": parameter.type,
            "description": parameter.description,
            "required": parameter.required,
        }
        for parameter in entry.tool.parameters
    ]
