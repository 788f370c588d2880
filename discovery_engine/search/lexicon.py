"""Words turned into the terms of the index.

    creates    creat, @creat         a stem, and the concept of words that mean the same
    new        new, @creat
    playlist   playlist, #music      and the subjects that a word belongs to

All count, the nearer the more: a tool that says the very word stands above one that says another
of its concept, and that above one that is about the same subject.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer

from discovery_engine.search.tokens import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONCEPT = "@"  # no word begins with either
SUBJECT = "#"

_DATA = Path(__file__).parent / "data"
_LONGEST = 40  # characters; beyond that it is an identifier or a hash, not a word


class Text(NamedTuple):
    terms: list[str]
    length: int
    """In words."""


class Lexicon:
    """Which words mean the same, belong together, or say nothing.

    Give it more `groups` of words that mean the same; they go before its own. It remembers what
    it made of the chunks of text it read, up to `memory` of them.
    """

    def __init__(self, groups: Iterable[Iterable[str]] = (), *, memory: int = 50_000) -> None:
        self._stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
        self._silent = {word for line in _lines("stopwords.txt") for word in line}
        self._concepts: dict[str, str] = {}
        for group in (*groups, *_lines("synonyms.txt")):
            stems = [stem for word in group for stem in self.stems(word)]
            for stem in stems:
                self._concepts.setdefault(stem, CONCEPT + stems[0])
        self._subjects: defaultdict[str, list[str]] = defaultdict(list)
        for line in _lines("topics.txt"):
            for stem in dict.fromkeys(map(self._stem, line)):
                self._subjects[stem].append(SUBJECT + line[0])
        self._chunks: dict[str, Text] = {}
        self._memory = memory

    @cached_property
    def digest(self) -> str:
        """Equal for lexicons that read every text alike."""
        silent = sorted(self._silent)
        content = (silent, sorted(self._concepts.items()), sorted(self._subjects.items()))
        return hashlib.sha256(repr(content).encode()).hexdigest()

    def text(self, text: str) -> Text:
        """The terms of a tool's text, without the words that say nothing."""
        found: list[str] = []
        length = 0
        chunks = self._chunks
        for chunk in text.split():
            terms, spoken = chunks.get(chunk) or self._read_chunk(chunk)
            found += terms
            length += spoken
        return Text(found, length)

    def name(self, name: str) -> Text:
        """The terms of a name, in which every word counts."""
        return self._read(words(name, characters=True))

    def terms(self, word: str) -> tuple[str, ...]:
        """The stem of `word`, then its concept if it has one, then its subjects."""
        return self.terms_of_stem(self.stem(word))

    def terms_of_stem(self, stem: str) -> tuple[str, ...]:
        concept = self._concepts.get(stem)
        subjects = self._subjects.get(stem, ())
        return (stem, concept, *subjects) if concept else (stem, *subjects)

    def stems(self, text: str) -> list[str]:
        """One stem for each word, whether it says anything or not."""
        return [self.stem(word) for word in words(text)]

    def stem(self, word: str) -> str:
        return self._stem(word[:_LONGEST])

    def is_silent(self, word: str) -> bool:
        return word in self._silent

    def _read_chunk(self, chunk: str) -> Text:
        spoken = [word for word in words(chunk, characters=True) if word not in self._silent]
        if len(self._chunks) >= self._memory:
            self._chunks.clear()
        text = self._chunks[chunk] = self._read(spoken)
        return text

    def _read(self, spoken: list[str]) -> Text:
        return Text([term for word in spoken for term in self.terms(word)], len(spoken))


@cache
def default_lexicon() -> Lexicon:
    return Lexicon()


def _lines(file: str) -> Iterator[list[str]]:
    for line in (_DATA / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()
