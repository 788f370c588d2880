"""The families of words, one bit each, from the word lists in the folder `data`."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache, reduce
from operator import or_
from pathlib import Path
from types import SimpleNamespace

from msgspec import Struct

DATA = Path(__file__).parent / "data"
PATTERNS = tomllib.loads((DATA / "patterns.toml").read_text("utf-8"))
_NAMES = (  # in the order of their bits
    "MODEL YOU USER US OUTCOME EXCUSE SOFT NOT MUST TELL KNOW ASK HIDE OMIT REPLY RULES DROP"
    " EARLIER OBEY AUTHORITY PERMIT ROLE FUTURE DECEIVE REGARDLESS TALK SECRET PRIVATE WHOLE GIVE"
    " TAKE SLOT ADDRESS TOOL THIS OTHER BEFORE WHEN USE PREFER DESTROY MONEY CHANGE COMMAND FOUND"
    " PRETEXT BROKEN MENTION LABEL AND ENGLISH VERB NAME PATH DO PRODUCT PERSIST SECURITY OFF"
    " OUTSIDE PEOPLE PROSE FORGET INSTRUCTION"
)
FAMILIES = {name: 1 << bit for bit, name in enumerate(_NAMES.split())}
"""The bit of each family. A word may belong to several.

FOUND is text that a tool reads, which may contain orders. MENTION is talk about attacks, LABEL the
mark of a prompt, AND a word that may precede an imperative, VERB the base form of an English verb,
DO a verb in the imperative, NAME an identifier, PATH a file with secrets, and PROSE words of
letters as opposed to manuals. The word lists describe the others. Plain integers: combining members
of an `IntFlag` takes ten times as long.
"""
F = SimpleNamespace(**FAMILIES)


def pattern(name: str) -> re.Pattern[str]:
    return re.compile("|".join(PATTERNS[name]["patterns"]))


_KNOWN_WORDS = 20_000
_LONGEST_STEM = 12
SECRET_FILE = pattern("secret_file")
_ACCENTS = {
    point: base
    for point in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if (base := unicodedata.normalize("NFD", chr(point))[0]) < "\x7f"
} | {0x451: "\u0435", 0x439: "\u0438", 0xDF: "ss"}
NOT_LATIN = "\u0250"  # the first letter after the Latin ones
_VOWELS = "aeiou"
_STEM = 5  # letters: "convert" and "conversion" have one stem
_MIN_TOPIC_WORD_LENGTH = 4  # letters of a word that counts for a topic
_LETTERS = re.compile(r"[^\W\d_]+")
_JOINTS = re.compile(r"['_.-]")
SECRET = F.PATH | F.PRIVATE
"""The families of a path to a file with secrets."""


@lru_cache(maxsize=_KNOWN_WORDS)
def families_of(word: str) -> tuple[int, int]:
    """Return the families of a lower-case word: in English, and in other languages."""
    bare = word if word.isascii() else word.translate(_ACCENTS)
    words = lexicon()
    parts = _JOINTS.split(bare)
    if bare in words.english or len(parts) == 1:
        english = words.english.get(bare, 0)
        return english if word.isascii() else english & ~F.ENGLISH, words.foreign(bare)
    if SECRET_FILE.search(bare):
        return SECRET, SECRET
    english = foreign = 0
    for part in parts:
        english |= words.english.get(part, 0)
        foreign |= words.foreign(part)
    if "_" in bare:
        english, foreign = english | F.NAME, foreign | F.NAME
    return english & ~F.VERB, foreign


class WordFamilies(Struct, frozen=True):
    english: dict[str, int]
    """The families of English words, and of pairs of words joined by `_`."""
    words: dict[str, int]
    """The families of words of other languages."""
    stems: dict[str, int]

    def foreign(self, word: str) -> int:
        families = self.words.get(word, 0)
        for length in range(min(len(word), _LONGEST_STEM), 0, -1):
            if stem_families := self.stems.get(word[:length]):
                return families | stem_families
        return families


class Known(Struct, frozen=True):
    """A token with everything that its families may be."""

    english: int
    """The possible families in an English sentence, without those of pairs."""
    foreign: int
    pairs: dict[str, int] | None
    """The additional families after another word, by that word."""
    language: int
    """1 for an English function word, -1 for one of another language, 0 for both or neither."""
    is_latin: bool


@lru_cache(maxsize=_KNOWN_WORDS)
def known(token: str) -> Known:
    english, foreign = families_of(token)
    verb = F.DO if english & F.VERB else 0
    language = bool(english & F.ENGLISH) - (token in function_words())
    pairs = _pairs().get(token)
    return Known(english | verb, foreign, pairs, language, token[0] < NOT_LATIN)


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text's words of four letters or more: their first five letters."""
    words = _LETTERS.findall(text)
    return frozenset(word[:_STEM] for word in words if len(word) >= _MIN_TOPIC_WORD_LENGTH)


@cache
def _pairs() -> dict[str, dict[str, int]]:
    """Return the families of pairs of words, by the second word and the first."""
    pairs: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for entry, about in lexicon().english.items():
        first, joint, second = entry.rpartition("_")
        if joint:
            pairs[second][first] = about
    return dict(pairs)


@cache
def function_words() -> frozenset[str]:
    """Return the function words of other languages."""
    return frozenset((DATA / "function_words.txt").read_text("utf-8").split())


def _word_list(name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the families of a word list, each with its words."""
    for section in (DATA / f"{name}.txt").read_text("utf-8").split("\n[")[1:]:
        family, _, words = section.partition("]\n")
        yield FAMILIES[family], words.split()


@cache
def lexicon() -> WordFamilies:
    english: defaultdict[str, int] = defaultdict(int)
    words: defaultdict[str, int] = defaultdict(int)
    stems: defaultdict[str, int] = defaultdict(int)
    for family, entries in _word_list("english"):
        for entry in entries:
            for form in _forms(entry[:-1]) if entry.endswith("+") else (entry,):
                english[form] |= family
            if entry.endswith("+"):
                english[entry[:-1]] |= F.VERB
    for family, entries in _word_list("other_languages"):
        for entry in (word.translate(_ACCENTS) for word in entries):
            table = stems if entry.endswith("*") else words
            table[entry.rstrip("*")] |= family
    return WordFamilies(dict(english), dict(words), dict(stems))


@cache
def unspaced_lexicon() -> tuple[re.Pattern[str], dict[str, int]]:
    families: defaultdict[str, int] = defaultdict(int)
    for family, entries in _word_list("unspaced"):
        for word in entries:
            families[word] |= family
    longest_first = sorted(families, key=lambda word: (-len(word), word))
    return re.compile("|".join(longest_first)), dict(families)


def _forms(verb: str) -> Iterator[str]:
    """Yield the regular forms of an English verb: send, sends, sended, sending."""
    yield verb
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        yield from (verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing")
        return
    yield verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    stem = verb.removesuffix("e")
    if len(verb) > 2 and verb[-1] not in "aeiouwxy" and verb[-2] in _VOWELS:  # noqa: PLR2004 - drop
        yield from (stem + verb[-1] + "ed", stem + verb[-1] + "ing")
    yield from (stem + "ed", stem + "ing")


def unspaced_families(text: str) -> int:
    """Return all families of the words in a Chinese or Japanese text."""
    pattern, families = unspaced_lexicon()
    if text.isascii():
        pattern = _ascii_unspaced()
    return reduce(or_, (families[word] for word in pattern.findall(text)), 0)


@cache
def _ascii_unspaced() -> re.Pattern[str]:
    """Return a pattern of the few ASCII words, a hundred times faster than that of all words."""
    words = [word for word in unspaced_lexicon()[1] if word.isascii()]
    return re.compile("|".join(words or ["(?!)"]))
