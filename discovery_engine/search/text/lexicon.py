"""Words turned into the terms of the index.

    creates    creat, @creat         a stem, and the concept of words that mean the same
    new        new, @creat
    playlist   playlist, #music      and the subjects that a word belongs to
    Lied       lied, song, @song …   and what a word of another language means

All count, the nearer the more: a tool that says the very word stands above one that says another
of its concept, and that above one that is about the same subject.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer

from discovery_engine._util import digests
from discovery_engine.search.text import languages
from discovery_engine.search.text.languages import English, Heard, Language, Languages
from discovery_engine.search.text.phrases import Phrase, Phrases
from discovery_engine.search.text.tokens import is_unspaced, runs, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONCEPT = "@"  # no word begins with either
SUBJECT = "#"

Group = tuple[str, ...]

_DATA = Path(__file__).parents[1] / "data"
_STOP_WORDS = _DATA / "stopwords.txt"
_SYNONYMS = _DATA / "synonyms.txt"
_TOPICS = _DATA / "topics.txt"
_LONGEST = 40  # characters; beyond that it is an identifier or a hash, not a word


class Text(NamedTuple):
    terms: list[str]
    length: int
    """In words."""


class Lexicon:
    """Which words mean the same, belong together, or say nothing.

    Give it more `groups` of words or phrases that mean the same; one that shares a word with a
    group that ships is joined with it. It remembers what it made of the chunks of text it read,
    up to `memory` of them.
    """

    def __init__(self, groups: Iterable[Group] = (), *, memory: int = 50_000) -> None:
        stemmer = Stemmer.Stemmer("english")
        self._stem: Callable[[str], str] = stemmer.stemWord
        self._silent = {word for line in _lines(_STOP_WORDS) for word in line}
        self._concepts: dict[str, str] = {}
        self._phrases = Phrases()
        self._owned: set[str] = set()
        shipped = list(_lines(_SYNONYMS))
        for group in shipped:
            stems = stemmer.stemWords(group)
            self._concepts.update(dict.fromkeys(stems, CONCEPT + stems[0]))
        self._subjects: defaultdict[str, list[str]] = defaultdict(list)
        topics = list(_lines(_TOPICS))
        for line in topics:
            for stem in dict.fromkeys(stemmer.stemWords(line)):
                self._subjects[stem].append(SUBJECT + line[0])
        told = [*self._silent, *(word for line in (*shipped, *topics) for word in line)]
        known = frozenset(stemmer.stemWords(told))
        self.languages = Languages(English(self._silent, known, self.stem))
        self._own = tuple(groups)
        for own in self._own:
            self._join(own)
        self._chunks: dict[str, Text] = {}
        self._memory = memory

    @cached_property
    def digest(self) -> str:
        """Of all that it was made from: equal for lexicons that read every text alike."""
        tables = (_STOP_WORDS, _SYNONYMS, _TOPICS, *languages.files())
        made_from = [file.read_bytes() for file in tables], self._own, Stemmer.version()
        return digests.digest(repr(made_from).encode()).hex()

    def text(self, text: str, language: Language | None = None) -> Text:
        """The terms of a tool's text in `language`, without the words that say nothing."""
        if self._phrases or language:
            return self._read_text(text, language)
        found: list[str] = []
        length = 0
        chunks = self._chunks
        for chunk in text.split():
            terms, spoken = chunks.get(chunk) or self._read_chunk(chunk)
            found += terms
            length += spoken
        return Text(found, length)

    def name(self, name: str, language: Language | None = None) -> Text:
        """The terms of a name, in which every word counts."""
        return self._read(name, words(name, characters=True), language)

    def language(self, text: str) -> Language | None:
        """The language of a text; None for English, and for what is written without spaces."""
        return self.languages.of(text)

    def language_of_tool(self, description: str) -> Language | None:
        """The language that a tool speaks, as its description shows."""
        return self.languages.of_long(description)

    def heard(self, text: str, language: Language | None) -> list[Heard]:
        """What each word of a text in `language` means, without those that say nothing."""
        return [heard for heard in self._heard(text, language) if heard.meant]

    def sayings(self, text: str, language: Language | None) -> dict[str, str]:
        """The first word or phrase of a text that gives each of its terms."""
        found: dict[str, str] = {}
        for word in words(text, characters=True):
            for term in self.terms(word):
                found.setdefault(term, word)
        for heard in self._heard(text, language):
            for word in heard.meant:
                for term in self.terms(word):
                    found.setdefault(term, heard.said)
        for phrase in self.phrases(text):
            found.setdefault(phrase.concept, " ".join(phrase.stems))
        return found

    def terms(self, word: str) -> tuple[str, ...]:
        """The stem of `word`, then its concept if it has one, then its subjects."""
        return self.terms_of_stem(self.stem(word))

    def terms_of_stem(self, stem: str) -> tuple[str, ...]:
        concept = self._concepts.get(stem)
        subjects = self._subjects.get(stem, ())
        return (stem, concept, *subjects) if concept else (stem, *subjects)

    def phrases(self, text: str) -> list[Phrase]:
        """The owner's phrases that are said in a text."""
        return self._phrases.found(self._spoken_stems(text)) if self._phrases else []

    def stems(self, text: str) -> list[str]:
        """One stem for each word, whether it says anything or not."""
        return [self.stem(word) for word in words(text)]

    def stem(self, word: str) -> str:
        return self._stem(word[:_LONGEST])

    def is_silent(self, word: str) -> bool:
        return word in self._silent

    def _heard(self, text: str, language: Language | None) -> Iterator[Heard]:
        for word in runs(text):
            if is_unspaced(word):
                for heard in self.languages.chinese(word):
                    yield Heard(heard.said, (heard.said,)) if self._is_owned(heard.said) else heard
            else:
                meaning = None
                if language and not self._is_owned(word):
                    meaning = language.meaning(word)
                if meaning is None:
                    meaning = () if self.is_silent(word) else (word,)
                yield Heard(word, meaning)

    def _is_owned(self, word: str) -> bool:
        """Whether the owner says what a word means."""
        return bool(self._owned) and self.stem(word) in self._owned

    def _read_chunk(self, chunk: str) -> Text:
        if len(self._chunks) >= self._memory:
            self._chunks.clear()
        text = self._chunks[chunk] = self._read_text(chunk, None)
        return text

    def _read_text(self, text: str, language: Language | None) -> Text:
        said = words(text, characters=True)
        spoken = [word for word in said if word not in self._silent]
        if language:
            spoken = [word for word in spoken if language.meaning(word) != ()]
        return self._read(text, spoken, language)

    def _read(self, text: str, spoken: list[str], language: Language | None) -> Text:
        terms = [term for word in spoken for term in self.terms(word)]
        if language or not text.isascii():
            for heard in self._heard(text, language):
                if heard.is_translated:
                    terms += [term for word in heard.meant for term in self.terms(word)]
        terms += [phrase.concept for phrase in self.phrases(text)]
        return Text(terms, len(spoken))

    def _join(self, group: Group) -> None:
        """Let all words and phrases of a group mean the same, and what they already meant."""
        members = [stems for text in group if (stems := self._spoken_stems(text))]
        alone = [stems[0] for stems in members if len(stems) == 1]
        joined = {self._concepts[stem] for stem in alone if stem in self._concepts}
        concept = min(joined, default=CONCEPT + " ".join(members[0]) if members else "")
        for stem, known in self._concepts.items():
            if known in joined:
                self._concepts[stem] = concept
        self._concepts.update(dict.fromkeys(alone, concept))
        self._owned.update(alone)
        self._phrases.join(joined, concept)
        for stems in members:
            if len(stems) > 1:
                self._phrases.add(stems, concept)

    def _spoken_stems(self, text: str) -> list[str]:
        said = words(text)
        return [self.stem(w) for w in said if w not in self._silent] or list(map(self.stem, said))


@lru_cache(maxsize=4)
def lexicon_of(groups: tuple[Group, ...]) -> Lexicon:
    """The lexicon with an owner's groups."""
    return Lexicon(groups)


def default_lexicon() -> Lexicon:
    return lexicon_of(())


def _lines(file: Path) -> Iterator[list[str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()
