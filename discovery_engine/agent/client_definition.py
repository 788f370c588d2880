"""A tool as a client is shown it in its own list of tools, where it is called directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine._util.text import clean, one_line
from discovery_engine.agent.results.cut_schema import cut_schema
from discovery_engine.agent.results.presentation import limit_of

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import Settings


def client_definition(entry: Entry, name: str, settings: Settings) -> JSONObject:
    """The upstream's definition with the owner's overrides, under its name towards clients.

    Texts for a model are cleaned of what no person would see. Schemas and all other members are the
    upstream's own, less the arguments that the owner pins, and less what a result that is cut
    might not match.
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
    if "outputSchema" in definition and limit_of(settings, tool):
        _relax_output_schema(definition, settings)
    return definition


def _relax_output_schema(definition: JSONObject, settings: Settings) -> None:
    """Leave what the structured content matches if it is cut, too: clients refuse any other."""
    # The plain form leaves long structured content out, which no schema allows.
    is_kept = settings.server.truncate.style == "boundary"
    relaxed = cut_schema(definition["outputSchema"]) if is_kept else None
    if relaxed is None:
        del definition["outputSchema"]
    else:
        definition["outputSchema"] = relaxed
