"""Arguments as smolagents describes them: a type, a description, and whether it may be left out.

    {"enum": ["bug", "docs"]}
    {"enum": ["bug", "docs"], "type": "string", "description": '("bug"|"docs")'}

A code agent reads no more than the type and the description, so what the type cannot say stands in
the description. Schemas are untrusted; whatever one contains, smolagents takes the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.signature import most_looked_at, type_text

_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_TYPE_OF = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}
_INPUT_KEYWORDS = (
    "enum",
    "const",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "default",
)
_DEPTH = 4  # branches within branches whose types are named
_VALUES = 32  # of an enum, whose types take no longer to name than to look at a subschema


def tool_input(schema: JSONValue, root: JSONObject, *, is_required: bool) -> dict[str, Any]:
    """An argument; `root` is where references of its schema lead into."""
    facts = schema if isinstance(schema, dict) else {}
    most = most_looked_at(len(root.get("properties") or ()))
    types = _types(facts, root, most)
    kinds = [kind for kind in _TYPES if kind in types] or list(_TYPES)
    input_form: dict[str, Any] = {
        "type": kinds[0] if len(kinds) == 1 else kinds,
        "description": _description(facts, root, kinds, most),
    }
    if not is_required or "null" in types:
        input_form["nullable"] = True
    if "$ref" not in json.dumps(facts):  # smolagents has no place for definitions
        input_form |= {key: facts[key] for key in _INPUT_KEYWORDS if key in facts}
    return input_form


def _types(schema: JSONValue, root: JSONObject, most: int) -> set[str]:
    """The types that a schema names; none if it allows any, or needs more than `most` looks.

    References may lead from thousands of branches to one subschema; its types are read once.
    """
    types: set[str] = set()
    read: set[int] = set()
    branches = [schema]
    for _ in range(_DEPTH + 1):
        nested: list[JSONValue] = []
        for branch in branches:
            facts = _resolved(branch, root)
            values = _list(facts, "type") or _list(facts, "enum")
            most -= 1 + len(values) // _VALUES
            if most < 0:
                return set()
            if id(facts) not in read:
                read.add(id(facts))
                types.update(_named(facts))
                nested += _list(facts, "anyOf") + _list(facts, "oneOf")
        branches = nested
    return types


def _named(facts: JSONObject) -> Iterator[str]:
    """The types that a subschema names, without those of its branches."""
    kind = facts.get("type")
    if kind is None:
        values = facts.get("enum", [facts["const"]] if "const" in facts else [])
        yield from map(_type_of, values if isinstance(values, list) else [])
        return
    named = kind if isinstance(kind, list) else [kind]
    yield from (name for name in named if isinstance(name, str))
    if "number" in named and isinstance(kind, list):
        yield "integer"  # which smolagents takes for a number only where it is the one type


def _list(facts: JSONObject, key: str) -> list[JSONValue]:
    value = facts.get(key)
    return value if isinstance(value, list) else []


def _type_of(value: JSONValue) -> str:
    return _TYPE_OF.get(type(value), "object")


def _resolved(schema: JSONValue, root: JSONObject) -> JSONObject:
    """The subschema, or what its local `$ref` leads to."""
    facts = schema if isinstance(schema, dict) else {}
    reference = facts.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return facts
    target: JSONValue = root
    for step in reference[2:].split("/"):
        target = target.get(step) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else {}


def _description(facts: JSONObject, root: JSONObject, kinds: list[str], most: int) -> str:
    """Its own description, then its type if that says more than a word."""
    text = facts.get("description") or facts.get("title")
    notation = type_text(facts, root, most=most)
    more = f"({notation})" if notation not in (*_TYPES, "any", "|".join(kinds)) else ""
    return " ".join(filter(None, (text if isinstance(text, str) else "", more)))
