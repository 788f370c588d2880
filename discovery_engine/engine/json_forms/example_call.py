"""A call of a tool, made up from its schema, as one would type it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.catalog import Entry
from discovery_engine.tools.model import Parameter

_SAMPLES: Mapping[str, JSONValue] = {
    "string": "...",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def arguments(entry: Entry) -> JSONObject:
    """A value for each required parameter: one that the schema names, or one of its type."""
    return {p.name: _sample(p) for p in entry.tool.parameters if p.required}


def command_line(entry: Entry) -> str:
    """For instance `discovery execute github:create_issue title=...`."""
    words = [f"{name}={_as_word(value)}" for name, value in arguments(entry).items()]
    return shlex.join(["discovery", "execute", str(entry.key), *words])


def _sample(parameter: Parameter) -> JSONValue:
    schema = parameter.schema
    if "const" in schema:
        return schema["const"]
    if "default" in schema:
        return schema["default"]
    for choices in ("examples", "enum"):
        if isinstance(schema.get(choices), list) and schema[choices]:
            return schema[choices][0]
    kinds = parameter.type.split("|")
    return next((_SAMPLES[kind] for kind in kinds if kind in _SAMPLES), "...")


def _as_word(value: JSONValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
