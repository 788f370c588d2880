"""The patterns of rules: compiled, limited in time, and matched with many names at once.

    github_*            a glob; case does not matter
    {create,update}_*   a glob with alternatives
    /^(list|get)_/i     a regular expression with flags; it may match anywhere in the name
    !*delete*           a negated pattern, glob or regular expression
    github:get_*        a pattern with `:`, matched with `server:tool` instead of the tool's name

A `:` does not count where it is syntax: inside a class such as `[[:alpha:]]`, or at the start of a
group such as `(?:` or `(?i:`.
"""

from __future__ import annotations

import math
import re
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, reduce
from itertools import accumulate, chain
from operator import or_
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import regex

Positions: TypeAlias = AbstractSet[int]

_BLOCK = 256  # names; the time limit applies to one search, so a block must be quick to search

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Characters that Unicode classifies as marks, letters or symbols, but that are not visible.
_BLANKS = frozenset(
    map(
        chr,
        chain(
            (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180F, 0x2800, 0x3164, 0xFFA0),
            range(0x180B, 0x180E),
            range(0xFE00, 0xFE10),
            range(0xE0100, 0xE01F0),
        ),
    )
)


class Spellings(Struct, frozen=True):
    """The normal forms of a name; a pattern matches the name if it matches any of them."""

    minding_case: tuple[str, ...]
    """The forms for case-sensitive patterns."""
    ignoring_case: tuple[str, ...]
    """The forms for other patterns: also a case-folded one, in which `ß` is `ss`."""

    @classmethod
    def of(cls, name: str) -> Spellings:
        nfc_name = unicodedata.normalize("NFC", name)
        plain = _visible(unicodedata.normalize("NFKC", _visible(name)))
        folded = unicodedata.normalize("NFKC", plain.casefold())
        minding_case = tuple(dict.fromkeys((nfc_name, plain)))
        return cls(minding_case, tuple(dict.fromkeys((*minding_case, folded))))


class Block(Struct, frozen=True):
    """Some lines of `Names` as one text, without a newline at either end."""

    first: int
    """The number of its first line in `Names`."""
    text: str
    starts: Sequence[int]
    """The offset of each line in `text`."""

    @classmethod
    def of(cls, first: int, lines: Sequence[str]) -> Block:
        return cls(first, "\n".join(lines), _starts(lines))

    def line_at(self, offset: int) -> int:
        """Return the number of the line at an offset, 0 for the first line of the block."""
        return bisect_right(self.starts, offset) - 1

    def start_after(self, line: int) -> int | None:
        """Return the offset of the line after `line`; None for the last."""
        return self.starts[line + 1] if line + 1 < len(self.starts) else None


class Names:
    """Names that are matched together; a match is reported by the position of its name.

    `lines` are the names with a single normal form, `positions` their positions among all names.
    `odd` are the other names, with positions and normal forms.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.texts = names
        self.everything = frozenset(range(len(names)))
        single = [name.isascii() and name.isprintable() for name in names]
        self.positions = [at for at, is_single in enumerate(single) if is_single]
        self.lines = [names[at] for at in self.positions]
        self.odd = [
            (at, Spellings.of(names[at])) for at, is_single in enumerate(single) if not is_single
        ]

    def lines_with(self, needle: str) -> Iterator[int]:
        """Yield the numbers of the lines that contain `needle`, which must be in lower case.

        A newline at its start or end anchors it at the start or end of a line; it must contain more
        than that.
        """
        text, starts = self._lowered, self._starts
        tied = needle.startswith("\n")
        at = text.find(needle) if self.lines else -1
        while at >= 0:
            line = bisect_right(starts, at + tied) - 1
            yield line
            at = text.find(needle, starts[line] + len(self.lines[line]))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        firsts = range(0, len(self.lines), _BLOCK)
        return tuple(Block.of(first, self.lines[first : first + _BLOCK]) for first in firsts)

    @cached_property
    def _lowered(self) -> str:
        return "\n".join(("", *self.lines, "")).lower()

    @cached_property
    def _starts(self) -> Sequence[int]:
        return _starts(self.lines, first=1)


def _starts(lines: Sequence[str], *, first: int = 0) -> list[int]:
    lengths = (len(line) + 1 for line in lines[:-1])
    return list(accumulate(lengths, initial=first))


def _visible(text: str) -> str:
    return "".join(c for c in text if not _is_invisible(c))


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE_CATEGORIES or character in _BLANKS


_Spelt: TypeAlias = tuple[int, tuple[str, ...]]

_REPETITIONS = 100_000  # counted repetitions are unrolled in memory, and nested ones multiply
_COUNTED = lazy_pattern(r"\{(\d*)(?:,(\d*))?\}")

# An expression of these elements alone can neither match a newline nor look beyond one. In names
# that are joined by newlines (with `^` and `$` at every line) it finds the same as in each name.
_KEEPS_TO_A_LINE = lazy_pattern(
    r"""(?:
        [\w\-:/.,;@%&='"<>!~ ]                   # a character, or any but a newline
        | \\[bdw.\-/:()\[\]{}|*+?^$]             # an escape
        | \[(?!\^)(?:[\w\-:/.@ ]|\\[dw.\-])+\]   # a class that is not negated
        | \((?:\?:|(?![?*])) | [)|^$*+?]           # a group, a choice, an end, a repetition
        | \{\d+(?:,\d*)?\}
    )+""",
    re.VERBOSE,
)


class TimeLimit(Struct, frozen=True):
    """Time limits in seconds of CPU time, so that a busy machine does not fail patterns."""

    search: float = 0.05
    """The limit for one search; an ordinary one takes a thousandth of it."""
    total: float = 1.0
    """The limit for all searches of one expression in the same names."""
    clock: Callable[[], float] = time.process_time


DEFAULT_LIMIT = TimeLimit()


class Selection(Struct, frozen=True):
    """The positions of matching names, and of names for which the pattern exceeded its time."""

    hits: Positions
    slow: Positions = frozenset()


class Regex(Struct, frozen=True):
    compiled: regex.Pattern[str]
    by_line: regex.Pattern[str] | None
    """The expression for names joined by newlines; None if it could match across them."""
    ignores_case: bool

    @classmethod
    def parse(cls, body: str, flags: str) -> Regex:
        """Compile an expression.

        Raises:
            ValueError: If a flag is unknown, or the body is no regular expression or too big.
        """
        import regex  # noqa: PLC0415 - 50 ms that only a regular expression is worth

        if unknown := sorted(set(flags) - set("imsx")):
            raise ValueError(f"flag {unknown[0]!r} is unknown; i, m, s and x are known")
        if math.prod(_counts(body)) > _REPETITIONS:
            raise ValueError(f"its counted repetitions multiply to more than {_REPETITIONS:,}")
        options = reduce(or_, (regex.RegexFlag[flag.upper()] for flag in flags), regex.RegexFlag(0))
        try:
            compiled = regex.compile(body, options)
        except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as exc:
            raise ValueError(f"it is no regular expression: {exc}") from exc
        by_line = regex.compile(body, options | regex.M) if _keeps_to_a_line(body, flags) else None
        return cls(compiled, by_line, bool(compiled.flags & regex.I))

    def select(self, names: Names, limit: TimeLimit) -> Selection:
        """Return the positions of the names in which the expression matches."""
        stopwatch = _Stopwatch(limit)
        hits, singly = self._scan(names, stopwatch)
        slow: set[int] = set()
        for position, spellings in chain(singly, self._odd(names)):
            try:
                if any(stopwatch.search(self.compiled, spelling) for spelling in spellings):
                    hits.add(position)
            except TimeoutError:
                slow.add(position)
        return Selection(hits, slow)

    def _scan(self, names: Names, stopwatch: _Stopwatch) -> tuple[set[int], Iterable[_Spelt]]:
        """Search block by block; return the positions found, and the names to be tried singly."""
        if self.by_line is None:
            return set(), _one_by_one(names, 0, len(names.lines))
        hits: set[int] = set()
        singly: list[_Spelt] = []
        for block in names.blocks:
            try:
                hits.update(names.positions[line] for line in self._lines(block, stopwatch))
            except TimeoutError:
                singly.extend(_one_by_one(names, block.first, block.first + len(block.starts)))
        return hits, singly

    def _lines(self, block: Block, stopwatch: _Stopwatch) -> Iterator[int]:
        offset: int | None = 0
        while offset is not None and (match := stopwatch.search(self.by_line, block.text, offset)):
            line = block.line_at(match.start())
            yield block.first + line
            offset = block.start_after(line)

    def _odd(self, names: Names) -> Iterator[_Spelt]:
        for position, spellings in names.odd:
            yield position, spellings.ignoring_case if self.ignores_case else spellings.minding_case


class _Stopwatch:
    """Limits the time of each search, and of all searches of one expression together."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._left = limit.total

    def search(
        self, expression: regex.Pattern[str], text: str, offset: int = 0
    ) -> regex.Match[str] | None:
        """Search a text from an offset; return the match, or None.

        Raises:
            TimeoutError: If the search takes too long, or the time for all searches is used up.
        """
        if self._left <= 0:
            raise TimeoutError
        started = self._limit.clock()
        try:
            return expression.search(text, offset, timeout=min(self._limit.search, self._left))
        finally:
            self._left -= self._limit.clock() - started


def _one_by_one(names: Names, first: int, stop: int) -> Iterator[_Spelt]:
    return ((names.positions[line], (names.lines[line],)) for line in range(first, stop))


def _counts(body: str) -> Iterator[int]:
    return (max(int(n or 1) for n in bounds) for bounds in _COUNTED.findall(body))


def _keeps_to_a_line(body: str, flags: str) -> bool:
    return not set("sx") & set(flags) and bool(_KEEPS_TO_A_LINE.fullmatch(body))


_MAX_PATTERN_LENGTH = 1000  # characters
# Escaped colons are not removed: they are colons of the pattern.
_SYNTAX = lazy_pattern(
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
    """The pattern as written."""
    is_negated: bool
    is_qualified: bool
    """True if it is matched with `server:tool` instead of the tool's name."""
    is_address: bool
    """True if its first `:` is that of `://`, so that it is matched with the URI of a resource."""
    body: Glob | Regex
    """The compiled pattern, without the `!`."""

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Compile a pattern.

        Raises:
            PatternError: If it is empty, too long, or not a valid glob or regular expression.
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
        """Return the names that the body matches; `PatternList` applies the negation."""
        if isinstance(self.body, Glob):
            return Selection(self.body.select(names))
        return self.body.select(names, limit)


class PatternList(Struct, frozen=True):
    """A list of patterns.

    It matches a name that no negated pattern matches and that, if there are positive patterns, at
    least one of those matches.
    """

    positive: tuple[Pattern, ...]
    negated: tuple[Pattern, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> PatternList:
        """Compile a list.

        Raises:
            PatternError: If a pattern is invalid; the error names the first one.
        """
        patterns = [Pattern.parse(text) for text in texts]
        return cls(
            tuple(p for p in patterns if not p.is_negated),
            tuple(p for p in patterns if p.is_negated),
        )

    def select(self, everything: Positions, select: Callable[[Pattern], Selection]) -> Selection:
        """Return the names of `everything` that the list matches.

        `select` returns the names that the body of one pattern matches. A name for which a negated
        pattern was too slow is not a hit, but counts as slow.
        """
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


# `wcmatch` defines the meaning of globs. Plain text in a glob is searched for in all names at once,
# and only the names that contain it are matched singly.

_ALTERNATIVES = 256  # that braces may expand to
_WILDCARDS = lazy_pattern(r"[*?]+")
_BEYOND_WILDCARDS = frozenset("[{\\")


class _Needle(NamedTuple):
    """A text that every matching name contains; newlines stand for the start and the end."""

    text: str
    suffices: bool
    """True if every name that contains it matches."""


class Glob(Struct, frozen=True):
    matches: Callable[[str], object]
    """Matches one whole normal form; the result is truthy if it matches."""
    needle: _Needle | None

    @classmethod
    def parse(cls, text: str) -> Glob:
        """Compile a glob.

        Raises:
            ValueError: If its braces expand to too many alternatives.
        """
        return cls(re.compile("|".join(_translated(text))).fullmatch, _needle(text))

    def select(self, names: Names) -> Positions:
        """Return the positions of the names that match."""
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
    """Translate a glob to regular expressions, one for each alternative of its braces.

    Raises:
        ValueError: If there are too many alternatives.
    """
    from wcmatch import fnmatch  # noqa: PLC0415 - 60 ms that only a glob is worth

    # DOTMATCH lets `*` match a leading dot, FORCEUNIX makes a glob the same on every platform.
    flags = fnmatch.IGNORECASE | fnmatch.BRACE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX
    try:
        expressions, _ = fnmatch.translate(glob, flags=flags, limit=_ALTERNATIVES)
    except Exception as exc:  # the exception for "too many" has no public name
        raise ValueError(f"its braces stand for more than {_ALTERNATIVES} alternatives") from exc
    return list(expressions)


def _needle(glob: str) -> _Needle | None:
    """Return the longest plain text of a simple glob; None if it has none, or is not simple.

    Globs with classes, braces or escapes are not simple, nor are those beyond ASCII, where
    ignoring case is more than lower case (the Kelvin sign matches `k`).
    """
    if not glob.isascii() or not glob.isprintable() or _BEYOND_WILDCARDS & set(glob):
        return None
    runs = _WILDCARDS.split(f"\n{glob.lower()}\n")
    needle = max(runs, key=len)
    others = sum(run != "\n" for run in runs) - (needle != "\n")
    suffices = "?" not in glob and not others
    return _Needle(needle, suffices) if suffices or needle != "\n" else None
