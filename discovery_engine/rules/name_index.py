"""Names as rules read them: every spelling of one, and many laid out to be searched at once.

A name is judged in each of its spellings, so that a disguise (a full-width letter, a zero-width
space) does not slip past a pattern. Nearly all names are plain ASCII and have one spelling; those
are joined, one on a line, so that a pattern is searched for in thousands of them by one call.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import accumulate, chain
from typing import TypeAlias

from msgspec import Struct

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
