"""Schemas of arguments that the APIs of language models take.

They refuse a whole request for one schema with a combination at its top level (`anyOf`, `oneOf`,
`allOf`, `not`, `enum`), without `properties`, with a property such as `$filter`, or that is not
valid by the draft of 2020-12. What is shown here is wider than the tool's own schema, never
narrower; the engine checks the arguments of a call against that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.sound_schema import modern, sound
from discovery_engine.tools.described_arguments import arguments_in
from discovery_engine.tools.schemas import pointed

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
        whole = _resolved(own)
        described = arguments_in(own)
        properties = {name: _schema(one) for name, one in described.schemas.items()}
        shown = _shown_names(properties)
        required = [name for name in described.required if name in properties]
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


def _resolved(schema: JSONObject) -> JSONObject:
    """What its `$ref` leads to within the schema, with its own members."""
    resolved = schema
    for _ in range(_REFERENCES):
        reference = resolved.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target = pointed(schema, unquote(reference[1:]))
        if not isinstance(target, dict):
            break
        resolved = {**target, **{name: one for name, one in resolved.items() if name != "$ref"}}
    return resolved


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
