"""A JSON Schema as people write types: one line in place of a page.

    {"type": "array", "items": {"enum": ["bug", "docs"]}}     ("bug"|"docs")[]
    a tool with its parameters                                label(name: string, state?: 1|2)

What a schema says and this cannot is left out; the whole schema stays one resource away. Schemas
come from strangers: whatever they hold, the answer is text of bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice

from discovery_engine.text import named, one_line
from discovery_engine.tools import JSONObject, JSONValue, Parameter, Tool

_CHOICES = 12  # of an enum, before the rest is counted instead of named
_MEMBERS = 24  # of an object, before the rest is left out
_LONG = 40  # characters of a value; a longer one is cut, and is no use as a default
_READABLE = 800  # characters of a type; a longer one is written less deeply
_DEPTH = 3  # levels of objects and arrays that are written out


def signature(tool: Tool) -> str:
    """For instance `create_issue(title: string, labels?: string[])`."""
    return f"{named(tool.name)}({', '.join(typed(p, tool) for p in tool.parameters)})"


def typed(parameter: Parameter, tool: Tool) -> str:
    """For instance `state?: "open"|"closed"`."""
    mark = "" if parameter.required else "?"
    return f"{named(parameter.name)}{mark}: {type_text(parameter.schema, tool.input_schema)}"


def parameter_line(parameter: Parameter, tool: Tool, about: str | None = None) -> str:
    """For instance `state?: "open"|"closed" = "open" - Which issues to list`.

    What comes after the dash is `about`, or the parameter's whole description.
    """
    text = one_line(parameter.description if about is None else about)
    head = f"{typed(parameter, tool)}{_default(parameter.schema)}"
    return f"{head} - {text}" if text else head


def type_text(schema: JSONValue, root: JSONObject) -> str:
    """A schema as a type, as deep as stays readable; `root` is where local `$ref`s point into."""
    for depth in range(_DEPTH, 0, -1):
        if len(text := _type(schema, root, depth)) <= _READABLE:
            return text
    return _type(schema, root, 0)


def _type(schema: JSONValue, root: JSONObject, depth: int) -> str:
    facts = _resolved(schema, root)
    if not facts or depth < 0:
        return "any"
    if "const" in facts:
        return _cut(_literal(facts["const"]))
    if isinstance(facts.get("enum"), list):
        return _choices(facts["enum"])
    for union in ("anyOf", "oneOf"):
        if isinstance(facts.get(union), list):
            branches = facts[union][:_CHOICES]
            return _joined(_type(branch, root, depth - 1) for branch in branches)
    kinds = facts.get("type")
    named = kinds[:_CHOICES] if isinstance(kinds, list) else [kinds]
    return _joined(_named(kind, facts, root, depth) for kind in named)


def _named(kind: JSONValue, facts: JSONObject, root: JSONObject, depth: int) -> str:
    if kind == "array":
        item = _type(facts.get("items"), root, depth - 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" or (kind is None and "properties" in facts):
        return _object(facts, root, depth)
    if kind in ("integer", "number"):
        return f"{kind}{_range(facts)}"
    if kind == "string" and isinstance(facts.get("format"), str):
        return f"string({named(_cut(facts['format']))})"
    return named(_cut(kind)) if isinstance(kind, str) else "any"


def _object(facts: JSONObject, root: JSONObject, depth: int) -> str:
    properties = facts.get("properties")
    if not isinstance(properties, dict) or not properties or depth <= 0:
        return "object"
    required = facts.get("required")
    needed = required if isinstance(required, list) else []
    members = [
        f"{named(_cut(name))}{'' if name in needed else '?'}: {_type(schema, root, depth - 1)}"
        for name, schema in islice(_needed_first(properties, needed), _MEMBERS)
    ]
    left = ["…"] if len(properties) > len(members) else []
    return f"{{{', '.join([*members, *left])}}}"


def _needed_first(
    properties: Mapping[str, JSONValue], needed: list[JSONValue]
) -> list[tuple[str, JSONValue]]:
    """In an order that does not depend on how the schema was written down."""
    return sorted(properties.items(), key=lambda item: (item[0] not in needed, item[0]))


def _resolved(schema: JSONValue, root: JSONObject) -> JSONObject:
    """The schema, or what its local `$ref` points at; followed once, as a chain may be a ring."""
    if not isinstance(schema, dict):
        return {}
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target: JSONValue = root
    for step in reference[2:].split("/"):
        target = target.get(step) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else {}


def _choices(values: list[JSONValue]) -> str:
    named = [_cut(_literal(value)) for value in values[:_CHOICES]]
    left = len(values) - len(named)
    return _joined([*named, f"({left} more)"] if left else named)


def _range(facts: JSONObject) -> str:
    low, high = (_bound(facts.get(key)) for key in ("minimum", "maximum"))
    return f"({low}..{high})" if low or high else ""


def _bound(value: JSONValue) -> str:
    return _cut(_literal(value)) if isinstance(value, int | float) else ""


def _default(schema: JSONObject) -> str:
    """The default value, unless it says nothing (`null`) or is long."""
    value = schema.get("default")
    text = _literal(value)
    return "" if value is None or len(text) > _LONG else f" = {text}"


def _literal(value: JSONValue) -> str:
    return one_line(json.dumps(value, ensure_ascii=False))


def _joined(kinds: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(kinds)) or "any"


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
