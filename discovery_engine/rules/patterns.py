"""The patterns of rules: compiled, bounded in time, and matched with many names at once.

    github_*            a glob; case does not matter
    {create,update}_*   a glob with alternatives
    /^(list|get)_/i     a regular expression between slashes, with its flags; it is searched for
    !*delete*           either of them behind a `!` matches what it does not match
    github:get_*        with a `:`, tested against `server:tool` rather than the tool's name

A `:` counts unless it is syntax: inside a class such as `[[:alpha:]]`, or in the head of a group
such as `(?:` or `(?i:`.
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

_BLOCK = 256  # names; a regex's time limit is for one search, so a block must be quick to search

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Unicode calls these marks, letters or symbols, and draws nothing for them.
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
    """One name as a pattern may read it; a pattern matches a name if it matches any of these."""

    minding_case: tuple[str, ...]
    ignoring_case: tuple[str, ...]
    """These are also case-folded, which is more than lower case: `ß` is `ss`."""

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
    """The number of its first line."""
    text: str
    starts: Sequence[int]
    """Where each of its lines begins in `text`."""

    @classmethod
    def of(cls, first: int, lines: Sequence[str]) -> Block:
        return cls(first, "\n".join(lines), _starts(lines))

    def line_at(self, offset: int) -> int:
        """Counted from the block's own first line."""
        return bisect_right(self.starts, offset) - 1

    def start_after(self, line: int) -> int | None:
        """Where the next line begins; None after the last."""
        return self.starts[line + 1] if line + 1 < len(self.starts) else None


class Names:
    """Some names, known by their positions.

    `lines` are those with a single spelling, `positions` says where they stand among all names,
    and `odd` are the others with their positions.
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
        """The numbers of the lines in which `needle` stands, which must be in lower case.

        A newline at its start or end ties it to the start or end of a line. It must hold more
        than that newline.
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

_REPETITIONS = 100_000  # counted repetitions are unrolled in memory, nested ones multiplied
_COUNTED = lazy_pattern(r"\{(\d*)(?:,(\d*))?\}")

# Made of these alone, an expression can neither match a newline nor look beyond one: it finds the
# same in names joined by newlines (with `^` and `$` at every line) as in one name after the other.
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
    """Seconds of this process's CPU, so that a busy machine makes no pattern slow."""

    search: float = 0.05
    """For one search; a usual one takes a thousandth of this."""
    total: float = 1.0
    """For all searches of one expression among the names handed over together."""
    clock: Callable[[], float] = time.process_time


DEFAULT_LIMIT = TimeLimit()


class Selection(Struct, frozen=True):
    """The positions of names that match, and of those of which that is unknown: too slow."""

    hits: Positions
    slow: Positions = frozenset()


class Regex(Struct, frozen=True):
    compiled: regex.Pattern[str]
    by_line: regex.Pattern[str] | None
    """The same for names joined by newlines, if it finds the same there."""
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
        """The positions of the names in which the expression is found."""
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
        """Return what is found block by block, and the names that must be tried one by one."""
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
    """Bounds each search, and all searches of one expression together."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._left = limit.total

    def search(
        self, expression: regex.Pattern[str], text: str, offset: int = 0
    ) -> regex.Match[str] | None:
        """Like the expression's own.

        Raises:
            TimeoutError: If the search takes too long, or the time for all of them is used up.
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
# An escaped colon is left for the search that follows, for it is a colon.
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
_WILDCARDS = lazy_pattern(r"[*?]+")
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
