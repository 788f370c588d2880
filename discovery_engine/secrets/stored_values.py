"""The values that a stored secret can have, and how much of one may be shown."""

from __future__ import annotations

_MAX_STORED_VALUE_BYTES = 64 * 1024  # bytes, as of a file that a reference names
# It would end a header or an entry of an environment, and begin another.
_REFUSED = {"\n": "a line break", "\r": "a carriage return", "\0": "a zero character"}
_CLASSES = ((8, "fewer than 8"), (32, "8 to 31"), (128, "32 to 127"))


class SecretText(str):
    """The value of a secret, whose `repr` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "••••"


def refusal_of(value: str) -> str:
    """Why a value cannot be stored, as the end of a sentence about it; empty if it can."""
    if not value:
        return "is empty"
    if fault := next((text for char, text in _REFUSED.items() if char in value), ""):
        return f"contains {fault}"
    if len(value.encode(errors="surrogatepass")) > _MAX_STORED_VALUE_BYTES:
        return f"has more than {_MAX_STORED_VALUE_BYTES // 1024} KiB"
    return ""


def length_class(value: str) -> str:
    """About how many characters it has, which gives less away than how many."""
    return next((text for limit, text in _CLASSES if len(value) < limit), "128 or more")
