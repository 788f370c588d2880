"""A JSON Schema as people write types: one line in place of a page.

    {"type": "array", "items": {"enum": ["bug", "docs"]}}     ("bug"|"docs")[]

What a schema says and this cannot is left out; the whole schema stays one resource away. Schemas
come from strangers: whatever they hold, the answer is text of bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from discovery_engine.tools import JSONObject, JSONValue, Parameter, Tool

_CHOICES = 12  # of an enum, before the rest is counted instead of named
_DEPTH = 3  # levels of objects and arrays that are written out


def parameter_line(parameter: Parameter, tool: Tool) -> str:
    """For instance `state?: "open"|"closed" = "open" - Which issues to list`."""
    mark = "" if parameter.required else "?"
    kind = type_text(parameter.schema, tool.input_schema)
    default = _default(parameter.schema)
    about = " ".join(parameter.description.split())
    return f"{parameter.name}{mark}: {kind}{default}" + (f" - {about}" if about else "")


def type_text(schema: JSONValue, root: JSONObject, depth: int = _DEPTH) -> str:
    """A schema as a type; `root` is where its local `$ref`s point into."""
    facts = _resolved(schema, root)
    if not facts or depth < 0:
        return "any"
    if "const" in facts:
        return _literal(facts["const"])
    if isinstance(facts.get("enum"), list):
        return _choices(facts["enum"])
    for union in ("anyOf", "oneOf"):
        if isinstance(facts.get(union), list):
            return _joined(type_text(branch, root, depth - 1) for branch in facts[union])
    kinds = facts.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    return _joined(_named(kind, facts, root, depth) for kind in named)


def _named(kind: JSONValue, facts: JSONObject, root: JSONObject, depth: int) -> str:
    if kind == "array":
        item = type_text(facts.get("items"), root, depth - 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" or (kind is None and "properties" in facts):
        return _object(facts, root, depth)
    if kind in ("integer", "number"):
        return f"{kind}{_range(facts)}"
    if kind == "string" and isinstance(facts.get("format"), str):
        return f"string({facts['format']})"
    return kind if isinstance(kind, str) else "any"


def _object(facts: JSONObject, root: JSONObject, depth: int) -> str:
    properties = facts.get("properties")
    if not isinstance(properties, dict) or not properties or depth <= 0:
        return "object"
    required = facts.get("required")
    needed = required if isinstance(required, list) else []
    members = (
        f"{name}{'' if name in needed else '?'}: {type_text(schema, root, depth - 1)}"
        for name, schema in properties.items()
    )
    return f"{{{', '.join(members)}}}"


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
    named = [_literal(value) for value in values[:_CHOICES]]
    left = len(values) - len(named)
    return _joined([*named, f"({left} more)"] if left else named)


def _range(facts: JSONObject) -> str:
    low, high = facts.get("minimum"), facts.get("maximum")
    if low is None and high is None:
        return ""
    return f"({'' if low is None else low}..{'' if high is None else high})"


def _default(schema: JSONObject) -> str:
    """The default value, unless it says nothing (`null`) or is long."""
    value = schema.get("default")
    text = _literal(value)
    return "" if value is None or len(text) > 40 else f" = {text}"  # noqa: PLR2004 - half a line


def _literal(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _joined(kinds: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(kinds)) or "any"
