"""JSON as the standard has it, from whoever wrote it: no NaN, no number beyond all bounds.

The one rule: what cannot be read is a ValueError, and nothing else is.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

from discovery_engine.tools import JSONValue


def read(text: str) -> JSONValue:
    """The value that a text holds.

    Raises:
        ValueError: If it is not JSON, or nests too deeply.
    """
    try:
        value: JSONValue = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return value


def refuse(constant: str) -> NoReturn:
    """For `parse_constant` of a decoder.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{constant} is not JSON")


def finite(text: str) -> float:
    """For `parse_float` of a decoder.

    Raises:
        ValueError: If the number is beyond what a float holds.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("it holds a number beyond all bounds")
    return number


_DECODER = json.JSONDecoder(parse_constant=refuse, parse_float=finite)
