"""What framing and decoding ought to do, said in the plainest way: slow, and obviously right."""

from __future__ import annotations

import json
import math
from typing import Any

UNREADABLE = "unreadable"
TOO_LONG = "too long"
_DEEP = 150  # levels; beyond them it depends on the caller's own stack what is too deep


def lines(data: bytes, limit: int) -> list[bytes | str]:
    """The lines of a stream; TOO_LONG stands for each that is."""
    *whole, rest = data.split(b"\n")
    found = [*whole, rest] if rest else whole
    return [line if len(line) <= limit else TOO_LONG for line in found]


def decoded(line: bytes) -> Any:
    """The value of a line, or UNREADABLE."""
    text = line.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return clean(json.loads(text))
    except (ValueError, RecursionError):
        return UNREADABLE


def clean(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    if isinstance(value, str):
        return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def is_deep(line: bytes) -> bool:
    return line.count(b"[") + line.count(b"{") > _DEEP
