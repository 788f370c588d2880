"""Spellings of a name, and names and words within a typo or two of another.

    create_issue, createIssue, create-issue, create issue
    github:create_issue, github__create_issue, mcp__github__create_issue

are one name: only letters and digits count, and case does not.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from discovery_engine.search.text.tokenizer import fold

if TYPE_CHECKING:
    from collections.abc import Collection

    from discovery_engine.tools.model import Tool

_HOST = "mcp"  # some hosts write mcp__server__tool
_LONG = 10  # characters from which a name may have two typos


def name_spellings(tool: Tool) -> set[str]:
    """A tool's normalized names: here and upstream, alone and after its server's."""
    server = fold(tool.server)
    own = {normalize_name(tool.name), normalize_name(tool.upstream_name)}
    return own | {server + name for name in own}


def normalize_name(name: str) -> str:
    """Letters and digits, folded; a name that has none stays as it is."""
    return fold(name) or name.strip()


def query_spellings(query: str) -> tuple[str, ...]:
    """The normalized names that a query may be."""
    folded = normalize_name(query)
    bare = folded.removeprefix(_HOST)
    return (folded, bare) if bare and bare != folded else (folded,)


def max_edits(length: int) -> int:
    """How many typos a name of that length may have and still be recognized."""
    if length < 4:  # noqa: PLR2004 - every short word is near to some other
        return 0
    return 2 if length >= _LONG else 1


def similar_names(wanted: str, names: Collection[str]) -> list[tuple[str, int]]:
    """The names that `wanted` may be a typo of, and by how many edits."""
    from rapidfuzz import process  # noqa: PLC0415 - slow to load, and rarely needed
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    most = max_edits(len(wanted))
    matches = process.extract(wanted, names, scorer=OSA.distance, score_cutoff=most, limit=None)
    return [(name, int(distance)) for name, distance, _ in matches]


def single_edits(word: str) -> set[str]:
    """Every word with one letter of `word` too few, too many, wrong, or out of turn."""
    edits: set[str] = set()
    for at in range(len(word)):
        before, here, behind = word[:at], word[at], word[at + 1 :]
        started = [before + letter for letter in ascii_lowercase]
        edits.add(before + behind)
        edits.update([start + behind for start in started])
        edits.update([start + here + behind for start in started])
        if behind:
            edits.add(before + behind[0] + here + behind[1:])
    edits.update([word + letter for letter in ascii_lowercase])
    edits.discard(word)
    return edits
