"""One pattern of a rule, compiled, and lists of them.

    github_*            a glob; case does not matter
    {create,update}_*   a glob with alternatives
    /^(list|get)_/i     a regular expression between slashes, with its flags; it is searched for
    !*delete*           either of them behind a `!` matches what it does not match
    github:get_*        with a `:`, tested against `server:tool` rather than the tool's name

A `:` counts unless it is syntax: inside a class such as `[[:alpha:]]`, or in the head of a group
such as `(?:` or `(?i:`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

from msgspec import Struct

from discovery_engine.rules.name_index import Names, Positions
from discovery_engine.rules.regexes import Regex, Selection, TimeLimit

_MAX_PATTERN_LENGTH = 1000  # characters
# An escaped colon is left for the search that follows, for it is a colon.
_SYNTAX = re.compile(
    r"\\[pP]\{[^}]*\}|\\[^:]|\[[!^]?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?[\w-]*:", re.DOTALL
)


class PatternError(ValueError):
    """A pattern that cannot be compiled."""

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        super().__init__(f"pattern {text!r} cannot be used: {reason}")


class Pattern(Struct, frozen=True):
    text: str
    """The pattern as it was written."""
    is_negated: bool
    is_qualified: bool
    """True if, for a tool, it is matched against `server:tool`."""
    is_address: bool
    """Its first `:` is that of a `://`: of a resource, it reads the URI."""
    body: Glob | Regex
    """The pattern behind the `!`, if there is one."""

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Compile a pattern.

        Raises:
            PatternError: If it is empty, too long, or wrong as a glob or a regular expression.
        """
        body = unicodedata.normalize("NFC", text).removeprefix("!")
        try:
            compiled = _compile(body)
        except ValueError as exc:
            raise PatternError(text, str(exc)) from exc
        plain = _SYNTAX.sub("", body.replace(r"\/", "/"))
        _, colon, rest = plain.partition(":")
        return cls(text, text.startswith("!"), bool(colon), rest.startswith("//"), compiled)

    def select(self, names: Names, limit: TimeLimit) -> Selection:
        """The names that the body matches; what the `!` makes of them is `PatternList`'s."""
        if isinstance(self.body, Glob):
            return Selection(self.body.select(names))
        return self.body.select(names, limit)


class PatternList(Struct, frozen=True):
    """It matches what no negated pattern matches and, if there are others, one of them does."""

    positive: tuple[Pattern, ...]
    negated: tuple[Pattern, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> PatternList:
        """Compile a list.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        patterns = [Pattern.parse(text) for text in texts]
        return cls(
            tuple(p for p in patterns if not p.is_negated),
            tuple(p for p in patterns if p.is_negated),
        )

    def select(self, everything: Positions, select: Callable[[Pattern], Selection]) -> Selection:
        """Return what the list matches of `everything`; `select` gives what a pattern matches."""
        selection = any_of(map(select, self.positive)) if self.positive else Selection(everything)
        if not self.negated:
            return selection
        refused = any_of(map(select, self.negated))
        hits = selection.hits - refused.hits - refused.slow
        return Selection(hits, (selection.hits | selection.slow) - refused.hits - hits)


def _compile(body: str) -> Glob | Regex:
    if not body:
        raise ValueError("it is empty")
    if len(body) > _MAX_PATTERN_LENGTH:
        raise ValueError(f"it is longer than {_MAX_PATTERN_LENGTH} characters")
    if body.startswith("!"):
        raise ValueError("it has more than one leading `!`")
    if not body.startswith("/"):
        return Glob.parse(body)
    literal, slash, flags = body[1:].rpartition("/")
    if not slash:
        raise ValueError("a regular expression ends with `/` and its flags")
    if not literal:
        raise ValueError("the regular expression is empty")
    return Regex.parse(literal, flags)


def any_of(selections: Iterable[Selection]) -> Selection:
    """Return the union of `selections`, of which there must be at least one."""
    parts = list(selections)
    hits = reduce(or_, (selection.hits for selection in parts))
    return Selection(hits, reduce(or_, (selection.slow for selection in parts)) - hits)


# `wcmatch` defines what a glob means. Where a glob has a run of plain letters, that run is looked
# for in all names at once, and only the names that have it are matched one by one.

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
