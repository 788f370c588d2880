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

from msgspec import Struct

from discovery_engine.rules.globs import Glob
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
