"""Globs: `*`, `?`, `[abc]`, `[!abc]` and `{a,b}`, without regard to case.

`wcmatch` defines what a glob means. Where a glob has a run of plain letters, that run is looked for
in all names at once, and only the names that have it are matched one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from discovery_engine.rules.name_index import Names, Positions

_ALTERNATIVES = 256  # that braces may expand to
_WILDCARDS = re.compile(r"[*?]+")
_BEYOND_WILDCARDS = frozenset("[{\\")


class _Needle(NamedTuple):
    """A text in every name that the glob matches; newlines stand for start and end."""

    text: str
    suffices: bool
    """A name that has it matches for sure."""


class Glob(Struct, frozen=True):
    matches: Callable[[str], object]
    """Tries one spelling; true in the sense of `bool` if the whole of it matches."""
    needle: _Needle | None

    @classmethod
    def parse(cls, text: str) -> Glob:
        """Compile a glob.

        Raises:
            ValueError: If its braces stand for too many alternatives.
        """
        return cls(re.compile("|".join(_translated(text))).fullmatch, _needle(text))

    def select(self, names: Names) -> Positions:
        """The positions of the names that match."""
        chosen = self._among_lines(names)
        odd = {
            position
            for position, spellings in names.odd
            if any(self.matches(spelling) for spelling in spellings.ignoring_case)
        }
        return chosen | odd if odd else chosen

    def _among_lines(self, names: Names) -> Positions:
        matches, lines, positions = self.matches, names.lines, names.positions
        if self.needle is None:
            return {at for at, line in zip(positions, lines, strict=True) if matches(line)}
        needle, suffices = self.needle
        if suffices and needle == "\n":  # the glob `*`
            return set(positions)
        hits = names.lines_with(needle)
        return {positions[line] for line in hits if suffices or matches(lines[line])}


def _translated(glob: str) -> list[str]:
    """One regular expression for each alternative of the braces."""
    from wcmatch import fnmatch  # noqa: PLC0415 - 60 ms that only a glob is worth

    # DOTMATCH lets `*` match a leading dot, FORCEUNIX makes a glob the same on every platform.
    flags = fnmatch.IGNORECASE | fnmatch.BRACE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX
    try:
        expressions, _ = fnmatch.translate(glob, flags=flags, limit=_ALTERNATIVES)
    except Exception as exc:  # the exception for "too many" has no public name
        raise ValueError(f"its braces stand for more than {_ALTERNATIVES} alternatives") from exc
    return list(expressions)


def _needle(glob: str) -> _Needle | None:
    """The longest run of letters of a simple glob; None if it has none, or is not simple.

    It is not simple beyond ASCII: there, ignoring case is more than lower case (a Kelvin sign is
    a `k`).
    """
    if not glob.isascii() or not glob.isprintable() or _BEYOND_WILDCARDS & set(glob):
        return None
    runs = _WILDCARDS.split(f"\n{glob.lower()}\n")
    needle = max(runs, key=len)
    others = sum(run != "\n" for run in runs) - (needle != "\n")
    suffices = "?" not in glob and not others
    return _Needle(needle, suffices) if suffices or needle != "\n" else None
