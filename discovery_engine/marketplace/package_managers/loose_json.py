"""JSON whose members may have any type: what is not as expected is read as empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def object_of(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def text_of(given: Any) -> str:
    return given if isinstance(given, str) else ""


def texts_of(given: Any) -> tuple[str, ...]:
    """The strings of a list; a lone string is a list of one."""
    if isinstance(given, str):
        return (given,)
    return tuple(text for text in given if isinstance(text, str)) if isinstance(given, list) else ()


def unix_time(given: Any) -> float:
    """Return an ISO 8601 date as Unix time in seconds; 0 if it is not a date."""
    try:
        date = given if isinstance(given, datetime) else datetime.fromisoformat(text_of(given))
        return date.timestamp()
    except (ValueError, OverflowError):
        return 0.0
