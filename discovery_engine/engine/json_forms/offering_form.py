"""Resources, resource templates and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.view.view import View


def offering_form(entry: OfferingEntry, view: View) -> JSONObject:
    offering = entry.offering
    return {
        "server": offering.server,
        "kind": offering.kind.value,
        offering.kind.wire.identifier: offering.identifier,
        "address": view.offerings.address(offering),
        "name": offering.name,
        "title": offering.title,
        "description": offering.description,
        "mime_type": offering.mime_type,
        "arguments": [
            {"name": p.name, "description": p.description, "required": p.required}
            for p in offering.parameters
        ],
        "enabled": entry.is_visible,
        "reason": view.reason(entry),
        "tags": list(entry.verdict.tags),
    }
