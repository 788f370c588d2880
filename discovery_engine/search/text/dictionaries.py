"""The tables of words of other languages: one file for each, as `data/languages/de.txt` describes.

A table is read when a text may be of its language, and parsed when one of its words is in the text.
All words are folded. The table of English, `en.txt`, has colloquial words and expressions, which
requests have and tools do not.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.text.tokenizer import bare, runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DATA = Path(__file__).parents[1] / "data" / "languages"
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})  # for keyboards without them

_FEW = 14  # words that are looked for one by one: 12 us each, where the set of all takes 170

COLLOQUIAL = "en"
"""The code of the table of colloquial English."""

Translation = tuple[str, ...]
"""The English words for a word; empty for a stop word."""


class Expression(NamedTuple):
    """Several words with one meaning: `look for`."""

    words: tuple[str, ...]
    english: Translation
    is_opening: bool
    """True if they have that meaning only as the first words of a text."""


class Dictionary(NamedTuple):
    indicators: frozenset[str]
    """Stop words that indicate the language."""
    stop_words: frozenset[str]
    """All stop words, the indicators among them."""
    translations: Mapping[str, Translation]
    ambiguous: frozenset[str]
    """Words of any of these that are words of English, too."""
    certain: frozenset[str]
    """Translated words that are none, although an English word has the same stem."""
    longest: Mapping[str, int]
    """By its first character, how long the longest word is."""
    expressions: Mapping[str, Sequence[Expression]]
    """By their first word, the longest first."""

    def expression_at(self, start: int, text: Sequence[str]) -> Expression | None:
        """The longest expression that begins at a word of a text, given as its words."""
        for expression in self.expressions.get(text[start], ()):
            fits = tuple(text[start : start + len(expression.words)]) == expression.words
            if fits and not (expression.is_opening and start):
                return expression
        return None


class WordTable:
    """One file."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._asked = 0

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the file, with its accents."""
        return frozenset(self._text.split())

    @cached_property
    def dictionary(self) -> Dictionary:
        marked: dict[str, set[str]] = {mark: set() for mark in "=~?!"}
        translations: dict[str, Translation] = {}
        expressions: defaultdict[str, list[Expression]] = defaultdict(list)
        for line in self._folded.splitlines():
            english, colon, own = line.partition(":")
            if line[:1] in marked:
                marked[line[0]].update(line[2:].split())
            elif colon and not line.startswith("#"):
                meaning = tuple(english.split())
                for entry in own.split():
                    if several := _expression(entry, meaning):
                        expressions[several.words[0]].append(several)
                    else:
                        translations.setdefault(entry, meaning)
        for alternatives in expressions.values():
            alternatives.sort(key=lambda several: -len(several.words))
        indicators, others, ambiguous, certain = map(frozenset, marked.values())
        stop_words = indicators | others
        longest: dict[str, int] = {}
        for word in stop_words.union(translations):
            longest[word[0]] = max(longest.get(word[0], 0), len(word))
        return Dictionary(
            indicators, stop_words, translations, ambiguous, certain, longest, expressions
        )

    def may_contain(self, word: str) -> bool:
        """Return whether a folded word is in the file, maybe in a comment."""
        self._asked += 1
        if self._asked <= _FEW:
            return f" {word} " in self._folded
        return word in self._between_spaces

    @cached_property
    def _between_spaces(self) -> frozenset[str]:
        return frozenset(self._folded.split(" ")[1:-1])

    @cached_property
    def _text(self) -> str:
        text = (_DATA / f"{self._code}.txt").read_text(encoding="utf-8").lower()
        return text + text.translate(_UMLAUTS) if self._code == "de" else text

    @cached_property
    def _folded(self) -> str:
        """The text with each of its words between two spaces."""
        return bare(self._text).casefold().replace("\n", " \n")


def _expression(entry: str, english: Translation) -> Expression | None:
    """An entry of several words (`look_for`, `k8s`), or one for the beginning (`^cat`)."""
    parts = tuple(runs(entry))
    if len(parts) > 1 or entry.startswith("^"):
        return Expression(parts, english, entry.startswith("^"))
    return None


def dictionary_files() -> list[Path]:
    """The files that all tables are read from."""
    return sorted(_DATA.glob("*.txt"))
