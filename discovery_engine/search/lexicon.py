"""Words turned into the terms of the index: stems, and one concept for words that mean the same.

creates, creating, new   →  the concept of `create`
repositories, repo       →  the concept of `repository`
webpage                  →  its stem
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import Stemmer

from discovery_engine.search.tokens import words

_DATA = Path(__file__).parent / "data"
_LONGEST = 40  # characters; beyond that it is an identifier or a hash, not a word
_MEMO = 50_000  # chunks of text whose terms are remembered


class Lexicon:
    """What words mean the same, and which say nothing. Give it more `groups` of synonyms."""

    def __init__(self, groups: Iterable[Iterable[str]] = ()) -> None:
        self._stem = Stemmer.Stemmer("english").stemWord
        self._concepts: dict[str, str] = {}
        for group in (*_groups("synonyms.txt"), *groups):
            self._add_concept([self._stem(word) for text in group for word in words(text)])
        self._silent = {word for group in _groups("stopwords.txt") for word in group}
        self._memo: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> list[str]:
        """The terms of a tool's text, without the words that say nothing."""
        found: list[str] = []
        memo = self._memo
        for chunk in text.split():
            terms = memo.get(chunk)
            found += self._remember(chunk) if terms is None else terms
        return found

    def name_terms(self, name: str) -> list[str]:
        """The terms of a name, in which every word counts."""
        return [self.term(word) for word in words(name, characters=True)]

    def term(self, word: str) -> str:
        stem = self._stem(word[:_LONGEST])
        return self._concepts.get(stem, stem)

    def is_silent(self, word: str) -> bool:
        return word in self._silent

    def _remember(self, chunk: str) -> tuple[str, ...]:
        if len(self._memo) > _MEMO:
            self._memo.clear()
        spoken = (w for w in words(chunk, characters=True) if w not in self._silent)
        terms = tuple(map(self.term, spoken))
        self._memo[chunk] = terms
        return terms

    def _add_concept(self, stems: list[str]) -> None:
        for stem in stems:
            self._concepts.setdefault(stem, stems[0])


@cache
def default_lexicon() -> Lexicon:
    return Lexicon()


def _groups(file: str) -> Iterator[list[str]]:
    for line in (_DATA / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()
