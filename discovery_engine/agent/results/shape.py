"""The shape of a JSON value in a few words, for a reader whose path into it matched nothing.

    {items: [50,000 of {id: number, name: string}], next: string}
"""

from __future__ import annotations

import json
import re

from discovery_engine._util.json import JSONValue
from discovery_engine._util.text import one_line
from discovery_engine.limits import shortened

_DEPTH = 3
_MEMBERS = 12
_NAME = 40  # characters
_LONGEST = 600  # characters
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shape(value: JSONValue, depth: int = _DEPTH) -> str:
    return shortened(one_line(_shape(value, depth)), _LONGEST)


def _shape(value: JSONValue, depth: int) -> str:
    match value:
        case dict() if not depth:
            return f"{{{len(value):,} members}}"
        case dict():
            names = list(value)[:_MEMBERS]
            more = [f"{len(value) - len(names):,} more"] if len(value) > len(names) else []
            members = [f"{_name(name)}: {_shape(value[name], depth - 1)}" for name in names]
            return f"{{{', '.join([*members, *more])}}}"
        case []:
            return "[]"
        case list():
            return f"[{len(value):,} of {_shape(value[0], depth - 1) if depth else '…'}]"
        case bool():
            return "boolean"
        case str():
            return "string"
        case None:
            return "null"
    return "number"


def _name(name: str) -> str:
    short = shortened(name, _NAME)
    return short if _PLAIN.fullmatch(short) else json.dumps(short, ensure_ascii=False)
