"""Phrases among an owner's synonyms: `pull request`, and `k8s`, which is the words k, 8, s."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Stems = tuple[str, ...]


class Phrase(NamedTuple):
    stems: Stems
    concept: str


class Phrases:
    def __init__(self) -> None:
        self._by_first: defaultdict[str, dict[Stems, str]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def add(self, stems: Sequence[str], concept: str) -> None:
        self._by_first[stems[0]][tuple(stems)] = concept

    def merge(self, concepts: Collection[str], concept: str) -> None:
        """Give all phrases of `concepts` one concept."""
        for phrases in self._by_first.values():
            for stems, meant in phrases.items():
                phrases[stems] = concept if meant in concepts else meant

    def find(self, stems: Sequence[str]) -> list[Phrase]:
        """Every phrase in a text, given as its stems; also those within others."""
        return [
            Phrase(phrase, concept)
            for start, first in enumerate(stems)
            for phrase, concept in self._by_first.get(first, {}).items()
            if tuple(stems[start : start + len(phrase)]) == phrase
        ]
