"""The shape of a JSON value in a few words, for a reader whose path into it matched nothing.

{items: [50,000 of {id: number, name: string}], next: string}
"""

from __future__ import annotations

import json
import re

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import one_line
from discovery_engine.tools.limits import shortened

_DEPTH = 3
_MEMBERS = 12
_NAME = 40  # characters
_MAX_SHAPE_LENGTH = 600  # characters
_KINDS = {str: "string", bool: "boolean", type(None): "null"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shape(value: JSONValue, depth: int = _DEPTH) -> str:
    return shortened(one_line(_shape(value, depth)), _MAX_SHAPE_LENGTH)


def _shape(value: JSONValue, depth: int) -> str:
    match value:
        case dict():
            return f"{{{_members(value, depth)}}}"
        case list():
            item = _shape(value[0], depth - 1) if depth and value else "…"
            return f"[{len(value):,} of {item}]" if value else "[]"
    return _KINDS.get(type(value), "number")


def _members(value: JSONObject, depth: int) -> str:
    if not depth:
        return f"{len(value):,} members"
    names = list(value)[:_MEMBERS]
    more = [f"{len(value) - len(names):,} more"] if len(value) > len(names) else []
    return ", ".join([*(f"{_name(n)}: {_shape(value[n], depth - 1)}" for n in names), *more])


def _name(name: str) -> str:
    short = shortened(name, _NAME)
    return short if _PLAIN.fullmatch(short) else json.dumps(short, ensure_ascii=False)
