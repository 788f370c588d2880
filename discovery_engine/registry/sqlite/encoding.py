"""Text as SQLite can hold it: a path or the name of a tool may have a lone surrogate, not UTF-8."""

from __future__ import annotations


def as_text(value: str) -> str | bytes:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def from_column(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
