"""The names of tools, all of one length as one string, to look through for a name with a typo.

As a dict from name to tools, 10,000 tools would take 4 MB, and each name would be compared with a
mistyped one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

IDS: Final = "I"  # the type code of an array of numbers of tools

NameList: TypeAlias = tuple[str, bytes]
"""Names of one length, in order and without separators; and the number of the tool of each, as an
array of `IDS`. A name that several tools have is there for each of them."""


def make_name_list(names: Iterable[tuple[str, int]]) -> NameList:
    """Make the list of names of one length, each with its tool."""
    pairs = sorted(names)
    return "".join(name for name, _ in pairs), array(IDS, [doc for _, doc in pairs]).tobytes()


def name_pairs(names: NameList, length: int) -> Iterator[tuple[str, int]]:
    """The names with their tools."""
    text, docs = names
    starts = range(0, len(text), length)
    return ((text[at : at + length], doc) for at, doc in zip(starts, array(IDS, docs), strict=True))


def docs_named(names: NameList, name: str) -> Sequence[int]:
    """The tools that have a name."""
    text, docs = names
    length = len(name)

    def name_at(number: int) -> str:
        return text[number * length : (number + 1) * length]

    numbers = range(len(text) // length)
    first = bisect_left(numbers, name, key=name_at)
    end = bisect_right(numbers, name, lo=first, key=name_at)
    return memoryview(docs).cast(IDS)[first:end].tolist()


def names_with_part(names: NameList, length: int, wanted: str, edits: int) -> set[str]:
    """The names of `length` that may be within so many edits of `wanted`, and hardly any others.

    An edit changes at most one of the parts of `wanted`, so a name within `edits` has one of
    `edits + 1` parts as it is, and moved by no more characters than that.
    """
    text, _ = names
    candidates = set()
    for start, part in _parts(wanted, edits + 1):
        at = text.find(part)
        while at >= 0:
            number, offset = divmod(at, length)
            if abs(offset - start) <= edits:
                first = number * length
                candidates.add(text[first : first + length])
            at = text.find(part, at + 1)
    return candidates


def _parts(text: str, count: int) -> Iterator[tuple[int, str]]:
    """Parts of `text` with where they start.

    A character is left out between them: else two neighbours transposed might change two parts.
    """
    size = (len(text) + 1) // count - 1
    for start in range(0, count * (size + 1), size + 1):
        yield start, text[start : start + size]
