"""Schemas that a validator could follow for ever, and values for them."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject, JSONValue


def tree(*operations: str) -> JSONObject:
    """Expressions, each of an operation with two operands."""
    operand = {"$ref": "#/$defs/expression"}
    branches: list[JSONObject] = [
        {
            "type": "object",
            "properties": {"left": operand, "op": {"const": name}, "right": operand},
            "required": ["op", "left", "right"],
            "additionalProperties": False,
        }
        for name in operations
    ]
    return {
        "type": "object",
        "properties": {"e": operand},
        "$defs": {"expression": {"anyOf": [*branches, {"type": "number"}]}},
    }


def expression(leaf: JSONValue, *, levels: int) -> JSONObject:
    value = leaf
    for _ in range(levels):
        value = {"left": 1, "op": "add", "right": value}
    return {"e": value}


def chain(keyword: str, links: int) -> JSONObject:
    """Definitions of which each branches twice into the next."""
    definitions: JSONObject = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(links)
    }
    definitions[f"d{links}"] = {"type": "string"}
    return {"type": "object", "properties": {"n": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
