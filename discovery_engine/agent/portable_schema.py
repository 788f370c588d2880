"""Schemas of arguments that the APIs of language models take.

They refuse a whole request for one schema with a combination at its top level (`anyOf`, `oneOf`,
`allOf`, `not`, `enum`), without `properties`, with a property such as `$filter`, or that is not
valid by the draft of 2020-12. What is shown here is wider than the tool's own schema, never
narrower; the engine checks the arguments of a call against that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.sound_schema import modern, sound

_COMBINING = frozenset(
    {"$id", "$ref", "$schema", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf"}
    | {"then"}
)
_REFERENCES = 8  # of which each leads to the next
_NAME_LENGTH = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_.-]")


class PortableSchema(Struct, frozen=True):
    """The schema as models are shown it, and the names that are others there."""

    schema: JSONObject
    renamed: Mapping[str, str] = MappingProxyType({})
    """The tool's own name of a parameter, by the name that is shown."""

    @classmethod
    def of(cls, own: JSONObject) -> PortableSchema:
        """Of the schema of a tool, which stays as it is."""
        own = modern(own)
        whole = _resolved(own, own)
        properties = {name: _schema(one) for name, one in _properties(whole, own)}
        shown = _shown_names(properties)
        required = [name for name in _required(whole, own) if name in properties]
        kept = {name: value for name, value in whole.items() if name not in _COMBINING}
        schema: JSONObject = {
            **({"$defs": own["$defs"]} if "$defs" in own else {}),
            **kept,
            "type": "object",
            "properties": {shown[name]: schema for name, schema in properties.items()},
        }
        schema.pop("required", None)
        if required:
            schema["required"] = [shown[name] for name in required]
        return cls(sound(schema), {new: name for name, new in shown.items() if new != name})


def _properties(schema: JSONObject, root: JSONObject) -> Iterator[tuple[str, JSONValue]]:
    """Those of the schema, then those that only a branch of it has; the first of a name counts."""
    seen: set[str] = set()
    for one in (schema, *_branches(schema, root, ("allOf", "anyOf", "oneOf", "then", "else"))):
        properties = one.get("properties")
        for name, value in properties.items() if isinstance(properties, dict) else ():
            if name not in seen:
                seen.add(name)
                yield name, value


def _required(schema: JSONObject, root: JSONObject) -> list[str]:
    """What every arguments must have."""
    named: dict[JSONValue, None] = {}
    for one in (schema, *_branches(schema, root, ("allOf",))):
        required = one.get("required")
        named |= dict.fromkeys(required if isinstance(required, list) else ())
    return [name for name in named if isinstance(name, str)]


def _branches(
    schema: JSONObject, root: JSONObject, keywords: tuple[str, ...]
) -> Iterator[JSONObject]:
    for keyword in keywords:
        value = schema.get(keyword)
        for branch in value if isinstance(value, list) else (value,):
            if isinstance(branch, dict):
                yield _resolved(branch, root)


def _resolved(schema: JSONObject, root: JSONObject) -> JSONObject:
    """What a schema's `$ref` leads to within `root`, with its own members."""
    for _ in range(_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: JSONValue = root
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - a JSON pointer
            target = target.get(step) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            break
        own = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**target, **own}
    return schema


def _schema(value: JSONValue) -> JSONObject:
    """The schema of a property; true is any value."""
    return value if isinstance(value, dict) else {}


def _shown_names(names: Mapping[str, JSONValue]) -> dict[str, str]:
    """The name that is shown of each, all different."""
    plain = {name for name in names if 0 < len(name) <= _NAME_LENGTH and not _OTHER.search(name)}
    taken = set(plain)
    shown: dict[str, str] = {}
    for name in names:
        if name in plain:
            shown[name] = name
            continue
        base = _OTHER.sub("_", name)[: _NAME_LENGTH - 3].strip("_") or "argument"
        made, number = base, 2
        while made in taken:
            made, number = f"{base}_{number}", number + 1
        taken.add(made)
        shown[name] = made
    return shown
