"""Finds the schemas that OpenAI's API takes as strict, so that a model's arguments fit them.

A strict schema has all properties required. A schema that is made strict, as SDKs do it, asks the
model for arguments that it had better leave out. So only a schema that is strict as it stands is
taken as strict.
"""

from __future__ import annotations

from discovery_engine._util.json import JSONValue

_DEPTH = 5  # levels of objects, which is what the API takes
_MEMBERS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description"}
    | {"items", "enum", "const"}
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def takes_strict(schema: JSONValue, depth: int = _DEPTH) -> bool:
    """Return whether the strict form of a schema asks for the same arguments and values."""
    if not isinstance(schema, dict) or not depth or schema.keys() - _MEMBERS:
        return False
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return (
            schema.get("additionalProperties", False) is False
            and properties.keys() == set(schema.get("required", ()))
            and all(takes_strict(member, depth - 1) for member in properties.values())
        )
    if kind == "array":
        return takes_strict(schema.get("items"), depth - 1)
    return isinstance(kind, str) and kind in _TYPES
