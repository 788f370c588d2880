"""Arguments in the form of smolagents: a type, a description, and whether it is optional.

    {"enum": ["bug", "docs"]}
    {"enum": ["bug", "docs"], "type": "string", "description": '("bug"|"docs")'}

A code agent reads only the type and the description, so the description has the rest of the schema.
Schemas are untrusted; smolagents accepts the result for any of them.
"""

from __future__ import annotations

import json
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
_BRANCHES = 100


def tool_input(schema: JSONValue, root: JSONObject, *, is_required: bool) -> dict[str, Any]:
    """Return the form of an argument; references in its schema point into `root`."""
    facts = schema if isinstance(schema, dict) else {}
    most = most_looked_at(len(root.get("properties") or ()))
    types = _types(facts)
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


def _types(facts: JSONObject) -> set[str]:
    """Return the types that a schema and its branches name; empty if they name none."""
    branches = [facts]
    for key in ("anyOf", "oneOf"):
        members = facts.get(key)
        branches += members[:_BRANCHES] if isinstance(members, list) else []
    return set().union(*(_named(branch) for branch in branches if isinstance(branch, dict)))


def _named(facts: JSONObject) -> set[str]:
    kind = facts.get("type")
    if kind is None:
        values = facts.get("enum", [facts["const"]] if "const" in facts else [])
        return set(map(_type_of, values if isinstance(values, list) else []))
    named = kind if isinstance(kind, list) else [kind]
    types = {name for name in named if isinstance(name, str)}
    # smolagents accepts an integer as a number only if that is the only type.
    return types | {"integer"} if "number" in types and isinstance(kind, list) else types


def _type_of(value: JSONValue) -> str:
    return _TYPE_OF.get(type(value), "object")


def _description(facts: JSONObject, root: JSONObject, kinds: list[str], most: int) -> str:
    """Return the description, and the whole type if it says more than `type`."""
    text = facts.get("description") or facts.get("title")
    notation = type_text(facts, root, most=most)
    more = f"({notation})" if notation not in (*_TYPES, "any", "|".join(kinds)) else ""
    return " ".join(filter(None, (text if isinstance(text, str) else "", more)))
