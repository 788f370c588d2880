"""The spellings of a name, and what is a slip of the keyboard away from a name or a word.

    create_issue, createIssue, create-issue, create issue
    github:create_issue, github__create_issue, mcp__github__create_issue

are one name: letters and digits alone count, and case does not.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from discovery_engine.search.text.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Collection

    from discovery_engine.tools.model import Tool

_HOST = "mcp"  # some hosts write mcp__server__tool
_LONG = 10  # characters from which a name may have two slips


def spellings(tool: Tool) -> set[str]:
    """A tool's folded names: as it is known here and upstream, alone and behind its server's."""
    server = fold(tool.server)
    own = {spelling(tool.name), spelling(tool.upstream_name)}
    return own | {server + name for name in own}


def spelling(name: str) -> str:
    """Letters and digits, folded; a name that has none stays as it is."""
    return fold(name) or name.strip()


def readings(query: str) -> tuple[str, ...]:
    """The folded spellings that a query may be."""
    folded = spelling(query)
    bare = folded.removeprefix(_HOST)
    return (folded, bare) if bare and bare != folded else (folded,)


def most_slips(length: int) -> int:
    """How many slips a name of that length may have and still be meant."""
    if length < 4:  # noqa: PLR2004 - every short word is near to some other
        return 0
    return 2 if length >= _LONG else 1


def nearest(wanted: str, names: Collection[str]) -> list[tuple[str, int]]:
    """The names within reach of `wanted` and how many slips away each is."""
    from rapidfuzz import process  # noqa: PLC0415 - slow to load, and rarely needed
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    most = most_slips(len(wanted))
    found = process.extract(wanted, names, scorer=OSA.distance, score_cutoff=most, limit=None)
    return [(name, int(distance)) for name, distance, _ in found]


def slips_of(word: str) -> set[str]:
    """Every word with one letter of `word` too few, too many, wrong, or out of turn."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    missing = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    wrong = {left + c + right[1:] for left, right in cuts if right for c in ascii_lowercase}
    added = {left + c + right for left, right in cuts for c in ascii_lowercase}
    return (missing | swapped | wrong | added) - {word}
