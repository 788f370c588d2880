"""Tools by name, in any spelling: the exact part of relevance, and names one slip away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from discovery_engine.catalog import Entry
from discovery_engine.search.tokens import fold

_HOST = "mcp"  # some hosts write mcp__server__tool


class Names:
    """Every tool under the folded spellings of its name."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._docs: defaultdict[str, list[int]] = defaultdict(list)
        for doc, entry in enumerate(entries):
            for spelling in spellings(entry):
                self._docs[spelling].append(doc)

    def exact(self, query: str) -> tuple[int, ...]:
        return tuple(self._docs.get(fold(query), ()))


def spellings(entry: Entry) -> set[str]:
    """The folded name, alone and behind its server's."""
    tool, server = fold(entry.tool.name), fold(entry.tool.server)
    return {tool, server + tool, _HOST + server + tool} if tool else set()
