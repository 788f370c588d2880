"""A tool as a client is shown it in its own list of tools, where it is called directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import clean, one_line
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


# Clients refuse a result whose structured content does not match the output schema that they were
# shown. Of a value that is cut, texts and lists keep their beginnings, and objects lose members;
# all that remains keeps its type. So whatever demands more than that is left out: `required`,
# `minItems`, `pattern`. Names, types and descriptions stay, for those who read them.

_BROKEN = frozenset(
    {
        "const",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "format",
        "if",
        "maxContains",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "not",
        "pattern",
        "required",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that hold for a value, and perhaps not for its beginning."""
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_MAPS = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "prefixItems"})
_SCHEMAS = frozenset({"additionalItems", "additionalProperties", "items"})
_TEXTS_AND_MORE = (str, list, dict)


def cut_schema(schema: JSONValue) -> JSONObject | None:
    """The schema of what is left of values that match `schema`; None if there is none."""
    try:
        relaxed = _relaxed(schema)
        is_closed = all(_leads_somewhere(relaxed, reference) for reference in _references(relaxed))
    except RecursionError:
        return None
    return relaxed if isinstance(relaxed, dict) and is_closed else None


def _relaxed(schema: JSONValue) -> JSONValue:
    if not isinstance(schema, dict):  # true and false
        return schema
    keywords: JSONObject = {}
    for key, value in schema.items():
        if key not in _BROKEN:
            keywords[key] = _KEYWORDS.get(key, _same)(value)
    if isinstance(choices := keywords.pop("enum", None), list):
        # Values that cannot be cut are the same afterwards; others remain for readers.
        is_whole = not any(isinstance(choice, _TEXTS_AND_MORE) for choice in choices)
        keywords["enum" if is_whole else "examples"] = choices
    if (one_of := keywords.pop("oneOf", None)) is not None:
        # Of what is left, more than one may be true.
        if "anyOf" in keywords:
            others = keywords.get("allOf")
            also = others if isinstance(others, list) else []
            keywords["allOf"] = [*also, {"anyOf": one_of}]
        else:
            keywords["anyOf"] = one_of
    return keywords


def _same(value: JSONValue) -> JSONValue:
    return value


def _one_or_many(value: JSONValue) -> JSONValue:
    return [_relaxed(part) for part in value] if isinstance(value, list) else _relaxed(value)


def _by_name(value: JSONValue) -> JSONValue:
    return {k: _relaxed(v) for k, v in value.items()} if isinstance(value, dict) else value


_KEYWORDS: Mapping[str, Callable[[JSONValue], JSONValue]] = {
    **dict.fromkeys(_MAPS, _by_name),
    **dict.fromkeys((*_LISTS, *_SCHEMAS, "oneOf"), _one_or_many),
}


def _references(schema: JSONValue) -> Iterator[JSONValue]:
    """Every reference of a schema, and None for one that cannot be followed."""
    match schema:
        case dict():
            for key, value in schema.items():
                if key == "$ref":
                    yield value
                elif key in _DYNAMIC:
                    yield None
                else:
                    yield from _references(value)
        case list():
            for part in schema:
                yield from _references(part)


def _leads_somewhere(schema: JSONValue, reference: JSONValue) -> bool:
    """Return whether a reference leads to a place that is still in the schema."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    place = schema
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return False
    return reference in ("#", "") or reference.startswith("#/")
