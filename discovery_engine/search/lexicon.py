"""Words turned into the terms of the index: a stem each, and a concept for words that mean the same.

    creates, creating   creat, @creat
    new                 new, @creat
    webpage             webpag, @page

Both count: a tool that says the very word stands above one that says another of its concept.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import Stemmer

from discovery_engine.search.tokens import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONCEPT = "@"  # no word begins with it

_DATA = Path(__file__).parent / "data"
_LONGEST = 40  # characters; beyond that it is an identifier or a hash, not a word
_MEMO = 50_000  # chunks of text whose terms are remembered


class Lexicon:
    """Which words mean the same and which say nothing. Give it more `groups` of synonyms."""

    def __init__(self, groups: Iterable[Iterable[str]] = ()) -> None:
        self._stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
        self._concepts: dict[str, str] = {}
        for group in (*_groups("synonyms.txt"), *groups):
            self._add_concept([self._stem(word) for text in group for word in words(text)])
        self._silent = {word for group in _groups("stopwords.txt") for word in group}
        self._terms_of_chunk: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> list[str]:
        """The terms of a tool's text, without the words that say nothing."""
        found: list[str] = []
        memo = self._terms_of_chunk
        for chunk in text.split():
            terms = memo.get(chunk)
            found += self._read(chunk) if terms is None else terms
        return found

    def name_terms(self, name: str) -> list[str]:
        """The terms of a name, in which every word counts."""
        return [term for word in words(name, characters=True) for term in self.word_terms(word)]

    def word_terms(self, word: str) -> tuple[str, ...]:
        """The stem, and the concept if the word stands for one."""
        stem = self._stem(word[:_LONGEST])
        concept = self._concepts.get(stem)
        return (stem, concept) if concept else (stem,)

    def stems(self, text: str) -> list[str]:
        """One stem for each word, whether it says anything or not."""
        return [self._stem(word[:_LONGEST]) for word in words(text)]

    def is_silent(self, word: str) -> bool:
        return word in self._silent

    def _read(self, chunk: str) -> tuple[str, ...]:
        spoken = (word for word in words(chunk, characters=True) if word not in self._silent)
        terms = tuple(term for word in spoken for term in self.word_terms(word))
        if len(self._terms_of_chunk) >= _MEMO:
            self._terms_of_chunk.clear()
        self._terms_of_chunk[chunk] = terms
        return terms

    def _add_concept(self, stems: list[str]) -> None:
        for stem in stems:
            self._concepts.setdefault(stem, CONCEPT + stems[0])


@cache
def default_lexicon() -> Lexicon:
    return Lexicon()


def _groups(file: str) -> Iterator[list[str]]:
    for line in (_DATA / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()
