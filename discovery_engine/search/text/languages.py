"""Words of other languages, translated to English.

Most tools are described in English, and many requests are not. The language of a text is detected
by its function words and by the commonest words of requests; only in a text of another language
are words looked up, by their stems. Chinese is recognized by its characters, and looked up run by
run.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer
from msgspec import Struct

from discovery_engine.search.text.tokenizer import bigrams, fold, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

_DATA = Path(__file__).parents[1] / "data" / "languages"
_STEMMERS = {"de": "german", "es": "spanish", "fr": "french"}
_LETTERS = {"de": "äöüß", "es": "ñ¿¡áíóú", "fr": "çœêèàùî"}
_COMPOUNDING = "de"  # writes two words as one
_LINK = "s"  # between them
_SHORTEST_PART = 4  # letters of each
_LONGEST_COMPOUND = 40  # letters; whatever is longer is no word
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})  # for keyboards without them
_LONGEST_RUN = 5  # characters of the longest Chinese entry

Translation = tuple[str, ...]
"""The English words for a word; empty for a stop word."""


class Token(NamedTuple):
    text: str
    english: Translation

    @property
    def is_translated(self) -> bool:
        return len(self.english) != 1 or self.english[0] != self.text


class English(NamedTuple):
    """What English texts contain, to tell them from those in other languages."""

    stop_words: Collection[str]
    stems: frozenset[str]
    """Of all words in the English tables."""
    stem: Callable[[str], str]


class _Dictionary(NamedTuple):
    """One file; `data/languages/de.txt` describes the format."""

    indicators: frozenset[str]
    """Stop words that indicate the language."""
    stop_words: frozenset[str]
    """All stop words, the indicators among them."""
    translations: Mapping[str, Translation]


class Language(Struct, frozen=True, dict=True):
    code: str
    english: English

    @cached_property
    def dictionary(self) -> _Dictionary:
        return _dictionary(self.code)

    @cached_property
    def indicators(self) -> frozenset[str]:
        """Folded words that indicate the language; none of them is an English one."""
        return frozenset(filter(self.is_indicated_by, self.entries))

    def is_indicated_by(self, word: str) -> bool:
        """The same of one word, which is quicker."""
        return word in self.entries and self.english.stem(word) not in self._english_stems

    def translate(self, word: str) -> Translation | None:
        """The English for a folded word; None if it is not in the dictionary."""
        if word in self._stop_words:
            return ()
        stem = self._stem(word)
        return self._by_stem.get(stem) or (
            self._translate_compound(word) if self.code == _COMPOUNDING else None
        )

    @cached_property
    def entries(self) -> frozenset[str]:
        return frozenset(map(fold, (*self.dictionary.indicators, *self.dictionary.translations)))

    @cached_property
    def _english_stems(self) -> frozenset[str]:
        meant = {word for meaning in self.dictionary.translations.values() for word in meaning}
        return self.english.stems.union(map(self.english.stem, meant))

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(map(fold, self.dictionary.stop_words))

    @cached_property
    def _by_stem(self) -> dict[str, Translation]:
        found: dict[str, Translation] = {}
        for text, translation in self.dictionary.translations.items():
            for spelling in (text, text.translate(_UMLAUTS)):
                found.setdefault(self._stem(fold(spelling)), translation)
        return found

    @cached_property
    def _stem(self) -> Callable[[str], str]:
        stem: Callable[[str], str] = Stemmer.Stemmer(_STEMMERS[self.code]).stemWord
        return stem

    def _translate_compound(self, word: str) -> Translation | None:
        """The English for the two words of a compound; None if it is none."""
        if len(word) > _LONGEST_COMPOUND:
            return None
        for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
            first, second = word[:cut], word[cut:]
            one = self._by_stem.get(self._stem(first))
            one = one or self._by_stem.get(self._stem(first.removesuffix(_LINK)))
            other = self._by_stem.get(self._stem(second))
            if one and other:
                return tuple(dict.fromkeys((*one, *other)))
        return None


class Languages:
    """All languages that are translated."""

    def __init__(self, english: English) -> None:
        self._english = english
        self.supported = [Language(code, english) for code in _STEMMERS]

    @cached_property
    def _chinese(self) -> _Dictionary:
        return _dictionary("zh")

    @cached_property
    def _indicators(self) -> frozenset[str]:
        """Of every language, as they stand between spaces in a text."""
        folded = {word for language in self.supported for word in language.indicators}
        dictionaries = [language.dictionary for language in self.supported]
        written = {text for one in dictionaries for text in (*one.indicators, *one.translations)}
        return frozenset(folded | {text for text in written if not text.isascii()})

    def detect(self, text: str) -> Language | None:
        """The language of a text; None for English, and when in doubt."""
        found_words = words(text)
        votes = [(one, _votes(one, text, found_words)) for one in self.supported]
        language, most = max(votes, key=itemgetter(1))
        return (
            language
            if most > sum(word in self._english.stop_words for word in found_words)
            else None
        )

    def detect_long(self, text: str) -> Language | None:
        """The same of a sentence or more, and quick for nearly all that is English."""
        return None if self._indicators.isdisjoint(text.lower().split()) else self.detect(text)

    def split_chinese(self, run: str) -> Iterator[Token]:
        """A run of characters, split at the words in the dictionary; between them as bigrams."""
        rest = ""
        while run:
            known = self._longest(run)
            if known:
                yield from _unknown(rest)
                yield Token(known, self._chinese.translations.get(known, ()))
                rest = ""
            else:
                rest += run[0]
            run = run[len(known) or 1 :]
        yield from _unknown(rest)

    def _longest(self, run: str) -> str:
        starts = (run[:length] for length in range(min(_LONGEST_RUN, len(run)), 0, -1))
        dictionary = self._chinese
        return next(
            (s for s in starts if s in dictionary.translations or s in dictionary.stop_words), ""
        )


def dictionary_files() -> list[Path]:
    """The files that all dictionaries are read from."""
    return sorted(_DATA.glob("*.txt"))


def _unknown(rest: str) -> Iterable[Token]:
    return (Token(pair, (pair,)) for pair in bigrams(rest)) if rest else ()


def _votes(language: Language, text: str, found_words: Collection[str]) -> int:
    letters = not text.isascii() and any(c in _LETTERS[language.code] for c in text.lower())
    return letters + sum(map(language.is_indicated_by, language.entries.intersection(found_words)))


def _dictionary(code: str) -> _Dictionary:
    indicators: set[str] = set()
    stop_words: set[str] = set()
    translations: dict[str, Translation] = {}
    for line in (_DATA / f"{code}.txt").read_text(encoding="utf-8").splitlines():
        english, colon, own = line.partition(":")
        if line.startswith("= "):
            indicators.update(line[2:].split())
        elif line.startswith("~ "):
            stop_words.update(line[2:].split())
        elif colon and not line.startswith("#"):
            for word in own.split():
                translations.setdefault(word, tuple(english.split()))
    return _Dictionary(frozenset(indicators), frozenset(indicators | stop_words), translations)
