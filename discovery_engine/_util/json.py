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
    """The value that a text holds.

    Raises:
        ValueError: If it is not JSON, or nests too deeply.
    """
    try:
        value: JSONValue = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return value


def refuse_constant(constant: str) -> NoReturn:
    """For `parse_constant` of a decoder.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{constant} is not JSON")


def parse_finite(text: str) -> float:
    """For `parse_float` of a decoder.

    Raises:
        ValueError: If the number is beyond what a float holds.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("it holds a number beyond all bounds")
    return number


_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=parse_finite)
