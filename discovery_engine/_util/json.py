"""The types of JSON values, and JSON parsed strictly: no NaN, no number that a float cannot hold.

The one rule: whatever cannot be parsed raises ValueError, and nothing else.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeAlias

JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]


def parse_json(text: str) -> JSONValue:
    """Parse a text strictly.

    Raises:
        ValueError: If it is not JSON, or nests too deeply.
    """
    try:
        value: JSONValue = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return value


def object_of(value: JSONValue) -> JSONObject:
    """Return an object of a stranger's JSON; empty if the value is none."""
    return value if isinstance(value, dict) else {}


def text_of(value: JSONValue) -> str:
    """Return a text of a stranger's JSON; empty if the value is none."""
    return value if isinstance(value, str) else ""


def says(texts: list[str], value: JSONValue) -> bool:
    """Return whether texts contain all of a structured value, as those of most servers do.

    SDKs wrap a value that is no object: `{"result": ["a", "b"]}` beside the texts `a` and `b`.
    """
    values = [_read(text) for text in texts]
    readings = [texts, values, *texts, *values]
    is_wrapped = isinstance(value, dict) and list(value) == ["result"]
    return value in readings or (is_wrapped and value["result"] in readings)


def refuse_constant(constant: str) -> NoReturn:
    """Refuse a constant; the `parse_constant` of a decoder.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{constant} is not JSON")


def parse_finite(text: str) -> float:
    """Parse a finite number; the `parse_float` of a decoder.

    Raises:
        ValueError: If the number is beyond what a float holds.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("it holds a number beyond all bounds")
    return number


def _read(text: str) -> JSONValue:
    """A text as JSON; as it is if it is none."""
    try:
        return parse_json(text)
    except ValueError:
        return text


_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=parse_finite)
