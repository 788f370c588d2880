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
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.schemas import arguments_in, pointed

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
        """Convert the schema of a tool, which is not changed itself."""
        own = modern(own)
        whole = _resolved(own)
        described = arguments_in(own)
        properties = {name: _schema(part) for name, part in described.schemas.items()}
        aliases = _shown_names(properties)
        required = [name for name in described.required if name in properties]
        keywords = {name: value for name, value in whole.items() if name not in _COMBINING}
        schema: JSONObject = {
            **({"$defs": own["$defs"]} if "$defs" in own else {}),
            **keywords,
            "type": "object",
            "properties": {aliases[name]: schema for name, schema in properties.items()},
        }
        schema.pop("required", None)
        if required:
            schema["required"] = [aliases[name] for name in required]
        return cls(sound(schema), {new: name for name, new in aliases.items() if new != name})


def _resolved(schema: JSONObject) -> JSONObject:
    """Resolve the `$ref` of a schema within it, and keep the schema's own members."""
    resolved = schema
    for _ in range(_REFERENCES):
        reference = resolved.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target = pointed(schema, unquote(reference[1:]))
        if not isinstance(target, dict):
            break
        resolved = {**target, **{name: value for name, value in resolved.items() if name != "$ref"}}
    return resolved


def _schema(value: JSONValue) -> JSONObject:
    """The schema of a property; true is any value."""
    return value if isinstance(value, dict) else {}


def _shown_names(names: Mapping[str, JSONValue]) -> dict[str, str]:
    """The name that is shown of each, all different."""
    plain = {name for name in names if 0 < len(name) <= _NAME_LENGTH and not _OTHER.search(name)}
    taken = set(plain)
    aliases: dict[str, str] = {}
    for name in names:
        if name in plain:
            aliases[name] = name
            continue
        base = _OTHER.sub("_", name)[: _NAME_LENGTH - 3].strip("_") or "argument"
        alias, number = base, 2
        while alias in taken:
            alias, number = f"{base}_{number}", number + 1
        taken.add(alias)
        aliases[name] = alias
    return aliases


# JSON Schemas that are valid by the draft of 2020-12, as the APIs of language models read them.
#
# They refuse a whole request for one schema that is not: words of older drafts, an array without
# `items`, a reference that leads nowhere. Schemas are untrusted: whatever one contains, the
# result is a valid schema of about its size, which is as wide or wider.

_DEPTH = 40  # levels of a schema; a model reads no deeper
_DEFINITIONS = ("$defs", "definitions")
_SCHEMA = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS)
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def modern(schema: JSONValue, depth: int = _DEPTH) -> Any:
    """A schema in the words of 2020-12, as far as it has older ones; below `depth`, anything."""
    if not isinstance(schema, dict):
        return schema
    if not depth:
        return {}
    keywords: JSONObject = {key: _member(key, value, depth - 1) for key, value in schema.items()}
    if isinstance(keywords.get("items"), list):
        keywords["prefixItems"] = keywords.pop("items")
    kind = keywords.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        keywords.setdefault("items", {})
    for bound, exclusive in _BOUNDS:
        if (
            isinstance(keywords.get(exclusive), bool)
            and keywords.pop(exclusive)
            and bound in keywords
        ):
            keywords[exclusive] = keywords.pop(bound)
    if isinstance(keywords.get("required"), bool):  # of draft 3, beside the property itself
        del keywords["required"]
    return keywords


def sound(schema: JSONObject) -> JSONObject:
    """The schema of an object; of a property that is not valid it keeps the members that are."""
    if is_sound(schema):
        return schema
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    if not is_sound(definitions):
        definitions = {}
    properties = schema.get("properties")
    keywords: JSONObject = {
        "type": "object",
        "properties": {
            name: _sound_part(value, definitions)
            for name, value in (properties.items() if isinstance(properties, dict) else ())
        },
        **definitions,
    }
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    if required_names := [name for name in names if name in keywords["properties"]]:
        keywords["required"] = required_names
    return keywords


def _sound_part(schema: JSONValue, definitions: JSONObject) -> JSONValue:
    if is_sound({**definitions, "not": schema}):
        return schema
    members = schema.items() if isinstance(schema, dict) else ()
    return {
        key: member for key, member in members if is_sound({**definitions, "not": {key: member}})
    }


def is_sound(schema: JSONObject) -> bool:
    """Return whether a schema is valid by 2020-12 and all its references resolve within it."""
    # Its library takes 4 MB, which a program that binds no tools does not need.
    from jsonschema_rs import meta  # noqa: PLC0415

    if not all(_leads_somewhere(reference, schema) for reference in _references(schema)):
        return False
    return bool(meta.is_valid(schema))


def _member(key: str, value: JSONValue, depth: int) -> Any:
    if key in _SCHEMA and isinstance(value, dict):
        return modern(value, depth)
    if (key in _SCHEMAS or key == "items") and isinstance(value, list):
        return [modern(item, depth) for item in value]
    if key in _NAMED_SCHEMAS and isinstance(value, dict):
        return {name: modern(item, depth) for name, item in value.items()}
    return value


def _references(schema: JSONValue) -> Iterator[JSONValue]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            for key, value in part.items():
                if key in _NAMED_SCHEMAS and isinstance(value, dict):
                    waiting.extend(value.values())
                elif key in _SCHEMA or key in _SCHEMAS:
                    waiting.append(value)
        elif isinstance(part, list):
            waiting.extend(part)


def _leads_somewhere(reference: JSONValue, root: JSONObject) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    target: JSONValue = root
    for step in filter(None, reference[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        elif isinstance(target, dict) and name in target:
            target = target[name]
        else:
            return False
    return isinstance(target, dict | bool)
