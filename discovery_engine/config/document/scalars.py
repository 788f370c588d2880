"""A scalar as it was written: what it means depends on the field that it stands in."""

from __future__ import annotations

import re

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
# No leading zeros (is 0123 octal?), and no more digits than any real number has.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]{0,30})(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


class PlainScalar(str):
    """A scalar without quotes."""

    __slots__ = ()

    @property
    def meaning(self) -> bool | float | str | None:
        """The value that YAML 1.2 gives it, for fields that do not take a text."""
        text = str(self)
        if text.lower() in _WORDS and text in (text.lower(), text.title(), text.upper()):
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text
