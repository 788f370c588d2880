"""Words of other languages, understood as the English ones that mean the same.

Most tools are described in English, and many requests are not. A text is told by its small words
and by the commonest words of requests; only when it is of another language are its words looked
up, by their stems. Chinese is told by its characters, and looked up run by run.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer
from msgspec import Struct

from discovery_engine.search.text.tokens import fold, pairs, words

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

Meaning = tuple[str, ...]
"""The English words for a word; empty if it asks for nothing."""


class Heard(NamedTuple):
    said: str
    meant: Meaning

    @property
    def is_translated(self) -> bool:
        return len(self.meant) != 1 or self.meant[0] != self.said


class English(NamedTuple):
    """What is English, to tell it from the others."""

    silent: Collection[str]
    """The words that say nothing."""
    known: frozenset[str]
    """Stems."""
    stem: Callable[[str], str]


class _Table(NamedTuple):
    """One file: `data/languages/de.txt` says how it is written."""

    showing: frozenset[str]
    """Words that ask for nothing and show the language."""
    silent: frozenset[str]
    """Both kinds of words that ask for nothing."""
    meanings: Mapping[str, Meaning]


class Language(Struct, frozen=True, dict=True):
    code: str
    english: English

    @cached_property
    def table(self) -> _Table:
        return _table(self.code)

    @cached_property
    def evidence(self) -> frozenset[str]:
        """Words that show the language, folded; none of them is an English one."""
        return frozenset(filter(self.is_shown_by, self.entries))

    def is_shown_by(self, word: str) -> bool:
        """The same of one word, which is quicker."""
        return word in self.entries and self.english.stem(word) not in self._english_stems

    def meaning(self, word: str) -> Meaning | None:
        """What a folded word means; None if it is not in the table."""
        if word in self._silent:
            return ()
        stem = self._stem(word)
        return self._by_stem.get(stem) or (self._parts(word) if self.code == _COMPOUNDING else None)

    @cached_property
    def entries(self) -> frozenset[str]:
        return frozenset(map(fold, (*self.table.showing, *self.table.meanings)))

    @cached_property
    def _english_stems(self) -> frozenset[str]:
        meant = {word for meaning in self.table.meanings.values() for word in meaning}
        return self.english.known.union(map(self.english.stem, meant))

    @cached_property
    def _silent(self) -> frozenset[str]:
        return frozenset(map(fold, self.table.silent))

    @cached_property
    def _by_stem(self) -> dict[str, Meaning]:
        found: dict[str, Meaning] = {}
        for text, meaning in self.table.meanings.items():
            for spelling in (text, text.translate(_UMLAUTS)):
                found.setdefault(self._stem(fold(spelling)), meaning)
        return found

    @cached_property
    def _stem(self) -> Callable[[str], str]:
        stem: Callable[[str], str] = Stemmer.Stemmer(_STEMMERS[self.code]).stemWord
        return stem

    def _parts(self, word: str) -> Meaning | None:
        """The meanings of the two words that a compound is made of; None if it is not."""
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
    """All that are understood beside English."""

    def __init__(self, english: English) -> None:
        self._english = english
        self.spoken = [Language(code, english) for code in _STEMMERS]

    @cached_property
    def _chinese(self) -> _Table:
        return _table("zh")

    @cached_property
    def _evidence(self) -> frozenset[str]:
        """Of every language, as text has it between spaces."""
        folded = {word for language in self.spoken for word in language.evidence}
        tables = [language.table for language in self.spoken]
        written = {text for table in tables for text in (*table.showing, *table.meanings)}
        return frozenset(folded | {text for text in written if not text.isascii()})

    def of(self, text: str) -> Language | None:
        """The language of a text; None for English, and when in doubt."""
        said = words(text)
        votes = [(one, _votes(one, text, said)) for one in self.spoken]
        language, most = max(votes, key=itemgetter(1))
        return language if most > sum(word in self._english.silent for word in said) else None

    def of_long(self, text: str) -> Language | None:
        """The same of a sentence or more, and quick for nearly all that is English."""
        return None if self._evidence.isdisjoint(text.lower().split()) else self.of(text)

    def chinese(self, run: str) -> Iterator[Heard]:
        """A run of characters cut at the words that are known; what lies between as pairs."""
        rest = ""
        while run:
            known = self._longest(run)
            if known:
                yield from _unknown(rest)
                yield Heard(known, self._meaning(known))
                rest = ""
            else:
                rest += run[0]
            run = run[len(known) or 1 :]
        yield from _unknown(rest)

    def _longest(self, run: str) -> str:
        starts = (run[:length] for length in range(min(_LONGEST_RUN, len(run)), 0, -1))
        table = self._chinese
        return next((s for s in starts if s in table.meanings or s in table.silent), "")

    def _meaning(self, known: str) -> Meaning:
        return self._chinese.meanings.get(known, ())


def files() -> list[Path]:
    """Where the tables stand."""
    return sorted(_DATA.glob("*.txt"))


def _unknown(rest: str) -> Iterable[Heard]:
    return (Heard(pair, (pair,)) for pair in pairs(rest)) if rest else ()


def _votes(language: Language, text: str, said: Collection[str]) -> int:
    letters = not text.isascii() and any(c in _LETTERS[language.code] for c in text.lower())
    return letters + sum(map(language.is_shown_by, language.entries.intersection(said)))


def _table(code: str) -> _Table:
    showing: set[str] = set()
    silent: set[str] = set()
    meanings: dict[str, Meaning] = {}
    for line in (_DATA / f"{code}.txt").read_text(encoding="utf-8").splitlines():
        english, colon, own = line.partition(":")
        if line.startswith("= "):
            showing.update(line[2:].split())
        elif line.startswith("~ "):
            silent.update(line[2:].split())
        elif colon and not line.startswith("#"):
            for word in own.split():
                meanings.setdefault(word, tuple(english.split()))
    return _Table(frozenset(showing), frozenset(showing | silent), meanings)
