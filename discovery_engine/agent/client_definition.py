"""A tool as a client is shown it in its own list of tools, where it is called directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine._util.text import clean, one_line

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry


def client_definition(entry: Entry, name: str) -> JSONObject:
    """The upstream's definition with the owner's overrides, under its name towards clients.

    Texts for a model are cleaned of what no person would see. Schemas and all other members are the
    upstream's own, less the arguments that the owner pins.
    """
    tool = entry.tool
    definition = {**tool.definition, "name": name, "inputSchema": tool.input_schema}
    if tool.overridden.description or isinstance(definition.get("description"), str):
        definition["description"] = clean(tool.description)
    if isinstance(title := definition.get("title"), str):
        definition["title"] = one_line(title)
    annotations = tool.annotations
    if isinstance(title := annotations.get("title"), str):
        definition["annotations"] = {**annotations, "title": one_line(title)}
    return definition
