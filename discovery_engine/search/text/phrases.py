"""Phrases that an owner gave a meaning: `pull request`, `k8s`, which is k, 8, s."""

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

    def join(self, concepts: Collection[str], concept: str) -> None:
        """Let what meant one of `concepts` mean `concept`."""
        for known in self._by_first.values():
            for stems, meant in known.items():
                known[stems] = concept if meant in concepts else meant

    def found(self, stems: Sequence[str]) -> list[Phrase]:
        """Every phrase that is said, also those within others."""
        return [
            Phrase(phrase, concept)
            for start, first in enumerate(stems)
            for phrase, concept in self._by_first.get(first, {}).items()
            if tuple(stems[start : start + len(phrase)]) == phrase
        ]
