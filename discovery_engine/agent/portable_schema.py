"""Schemas of tools in a form that the APIs of language models accept.

These APIs refuse a whole request if one schema has a combination at its top level (`anyOf`,
`oneOf`, `allOf`, `not`, `enum`), lacks `properties`, has a property such as `$filter`, or is
invalid under draft 2020-12. A portable schema allows whatever the tool's own schema allows, and
possibly more; the engine checks the arguments of a call against the tool's own schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, object_of
from discovery_engine.tools.schemas import arguments_in, pointed

_COMBINING = frozenset(
    {"$id", "$ref", "$schema", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf"}
    | {"then"}
)
_REFERENCES = 8  # references that are followed in a chain
_NAME_LENGTH = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_.-]")


class PortableSchema(Struct, frozen=True):
    """A schema to show to a model, and the parameters that have another name in it."""

    schema: JSONObject
    renamed: Mapping[str, str] = MappingProxyType({})
    """The tool's own names of these parameters, by the names in `schema`."""

    @classmethod
    def of(cls, own: JSONObject) -> PortableSchema:
        """Convert the schema of a tool, without modifying it."""
        own = modern(own)
        whole = _resolved(own)
        described = arguments_in(own)
        properties = {name: object_of(part) for name, part in described.schemas.items()}
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
    """Replace the `$ref` of a schema by its target in that schema; own members take precedence."""
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


def _shown_names(names: Mapping[str, JSONValue]) -> dict[str, str]:
    """Map each name to a unique one that the APIs accept; acceptable names stay."""
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


# JSON Schemas that are valid under draft 2020-12, which the APIs of language models require.
#
# One keyword of an older draft, an array without `items` or an unresolvable reference is enough for
# them to refuse the request. Schemas are untrusted: any input gives a valid schema of about its
# size, which allows whatever the input allows.

_DEPTH = 40  # levels of a schema; a model reads no deeper
_DEFINITIONS = ("$defs", "definitions")
_SCHEMA = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS)
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def modern(schema: JSONValue, depth: int = _DEPTH) -> Any:
    """Rewrite keywords of older drafts in those of 2020-12; below `depth` levels allow anything."""
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
    if isinstance(keywords.get("required"), bool):  # draft 3 has it within the property
        del keywords["required"]
    return keywords


def sound(schema: JSONObject) -> JSONObject:
    """Return a valid schema of an object; an invalid property keeps only its valid keywords."""
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
    """Return whether a schema is valid under 2020-12, and all its references resolve in it."""
    # Imported here: the library takes 4 MB, and a program that binds no tools does not need it.
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
