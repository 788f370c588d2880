from __future__ import annotations

from collections.abc import Collection, Mapping


class TermCounts:
    """The vocabulary of a hundred tools: how many of them hold each term."""

    size = 100

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def document_frequency(self, term: str) -> int:
        return self._counts.get(term, 0)

    def known_terms(self, terms: Collection[str]) -> Collection[str]:
        return self._counts.keys() & terms
