"""Regular expressions as their owner wrote them: `/body/flags`, searched for, and bounded in time.

The names are untrusted, so every search has a time limit. A search that times out is neither a
match nor a miss; the caller decides what is safe.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from discovery_engine.rules.name_index import Block, Names, Positions

if TYPE_CHECKING:
    import regex

_Spelt: TypeAlias = tuple[int, tuple[str, ...]]

_REPETITIONS = 100_000  # counted repetitions are unrolled in memory, nested ones multiplied
_COUNTED = re.compile(r"\{(\d*)(?:,(\d*))?\}")

# Made of these alone, an expression can neither match a newline nor look beyond one: it finds the
# same in names joined by newlines (with `^` and `$` at every line) as in one name after the other.
_KEEPS_TO_A_LINE = re.compile(
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
