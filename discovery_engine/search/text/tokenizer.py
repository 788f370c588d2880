"""Text cut into words, the same way for tools and for queries, and the spellings of names.

    create_issue, create-issue, createIssue   create, issue
    getUserByID, HTTPServerError, getKPIs     get, user, by, id; http, server, error; get, kpi
    MySQL, iPhone, Wi-Fi                      my, sql; i, phone; wi, fi; and each whole
    Café, Straße                              cafe; strasse
    搜索文件                                   搜索, 索文, 文件

Words are folded: without case, accents, and differences of width. A script that puts no spaces
between words is cut into pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import islice
from string import ascii_lowercase
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection

    from discovery_engine.tools.model import Tool

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai and Lao
    "\u3040-\u30ff"  # Hiragana and Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Hangul: spaced by phrases, so pairs find the words inside
)
_LETTERS = {"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"} | {
    "æ": "ae",
    "œ": "oe",
}  # Latin letters that Unicode does not take apart
_LETTER = lazy_pattern("[ßøØłŁđĐæœ]")
_MARKS = lazy_pattern("[\u0300-\u036f]+")  # accents
_BEYOND_MARKS = "\u0482"  # the last character before the marks of other scripts
_MARKED_LETTERS = (("и\u0306", "й"), ("И\u0306", "Й"))  # stems of Russian depend on it
_VOICING = "\u3099\u309a"  # of kana: without it bus, path and bath are one word
_ASCII_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ASCII_CHUNK = lazy_pattern(r"\S+")
_PLURAL = lazy_pattern(r"(?<=[A-Z]{2})s(?![a-z])")  # no stemmer reduces kpis to KPI
_COMPOUND = lazy_pattern(
    r"\b(?:[A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*"  # MySQL, GitHub, BibTeX
    r"|[A-Z]{2,}[a-z]{2,}"  # QRCode
    r"|[a-z][A-Z][A-Za-z]+"  # iPhone, eBay
    r"|[a-z]{2,}OS\b)"  # macOS
    r"|\b(?:[A-Za-z]{1,2}-[A-Za-z]{2,}|[A-Za-z]{2,}-[A-Za-z]{1,2})\b"  # wi-fi, add-on
)
_LONGEST_COMPOUND = 24  # characters; a longer one is an identifier


class Compound(Struct, frozen=True):
    """A word that is written as several, but read as one: MySQL, BibTeX, Wi-Fi."""

    whole: str
    parts: tuple[str, ...]


def words(text: str, *, characters: bool = False) -> list[str]:
    """The folded words of `text`, in order.

    With `characters`, text without spaces gives its single characters too: a tool is indexed
    that way, so that a query of one character finds it.
    """
    if text.isascii():
        return _ascii_words(text)
    text_words: list[str] = []
    for word in runs(text):
        if is_unspaced(word):
            text_words += bigrams(word)
            if characters and len(word) > 1:
                text_words += word
        else:
            text_words.append(word)
    return text_words


def runs(text: str) -> list[str]:
    """The folded words of `text`, in order; what is written without spaces is left in one."""
    if text.isascii():
        return _ascii_words(text)
    raw_words = _word().findall(bare(_PLURAL.sub(" ", text)))
    return [word.casefold() for word in raw_words]


def compounds(text: str) -> list[Compound]:
    """The words of `text` with capitals or a hyphen inside: `words` has their parts alone.

    Of a name in camel case (`getUser`) none is read: its words are as good apart.
    """
    if text.islower() and "-" not in text:
        return []
    compound_words = []
    for run in _COMPOUND.findall(_PLURAL.sub("", text)):
        parts = tuple(_ascii_words(run))
        if len(parts) > 1 and len(run) <= _LONGEST_COMPOUND:
            compound_words.append(Compound("".join(parts), parts))
    return compound_words


def truncate_words(text: str, *, most: int) -> str:
    """`text` up to its `most`-th word; of a script without spaces, two characters are a word."""
    if len(text) <= most:
        return text
    chunk = _ASCII_CHUNK if text.isascii() else _countable()
    beyond = next(islice(chunk.finditer(text), most, None), None)
    return text[: beyond.start()] if beyond else text


def is_unspaced(word: str) -> bool:
    """Return whether a word is of a script that puts no spaces between words."""
    return not word.isascii() and bool(_unspaced().match(word))


def bigrams(run: str) -> list[str]:
    """Each two neighbouring characters; a lone character stays as it is."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def fold(text: str) -> str:
    """Letters and digits alone, folded: equal for every spelling of the same name."""
    if text.isascii():
        return "".join(filter(str.isalnum, text)).lower()
    return "".join(filter(str.isalnum, bare(text))).casefold()


def bare(text: str) -> str:
    """`text` without accents and differences of width; what makes another letter is none."""
    whole = _LETTER.sub(lambda letter: _LETTERS[letter[0]], text)
    decomposed = unicodedata.normalize("NFKD", whole)
    for apart, letter in _MARKED_LETTERS:
        decomposed = decomposed.replace(apart, letter)
    letters = _MARKS.sub("", decomposed)
    if max(letters, default="") > _BEYOND_MARKS:
        letters = "".join(c for c in letters if c in _VOICING or not unicodedata.combining(c))
    return unicodedata.normalize("NFC", letters)  # puts Hangul syllables and kana together again


def _ascii_words(text: str) -> list[str]:
    one_each = text if text.islower() else _PLURAL.sub(" ", text)
    return [word.lower() for word in _ASCII_WORD.findall(one_each)]


# Sets of so many characters take long to compile, and most texts are ASCII.
@cache
def _word() -> re.Pattern[str]:
    return re.compile(
        r"[A-Z]+(?![a-z])"  # HTTP before Server
        r"|[A-Z]?[a-z]+"
        r"|\d+"
        rf"|[{_UNSPACED}]+"
        rf"|[^\W\d_A-Za-z{_UNSPACED}]+"
    )


@cache
def _countable() -> re.Pattern[str]:
    return re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(rf"[{_UNSPACED}]")


#     create_issue, createIssue, create-issue, create issue
#     github:create_issue, github__create_issue, mcp__github__create_issue
#
# are one name: only letters and digits count, and case does not.

_HOST = "mcp"  # some hosts write mcp__server__tool
_LONG = 10  # characters from which a name may have two typos


def name_spellings(tool: Tool) -> set[str]:
    """A tool's normalized names: here and upstream, alone and after its server's."""
    server = fold(tool.server)
    own = {normalize_name(tool.name), normalize_name(tool.upstream_name)}
    return own | {server + name for name in own}


def normalize_name(name: str) -> str:
    """Letters and digits, folded; a name that has none stays as it is."""
    return fold(name) or name.strip()


def query_spellings(query: str) -> tuple[str, ...]:
    """The normalized names that a query may be."""
    folded = normalize_name(query)
    bare = folded.removeprefix(_HOST)
    return (folded, bare) if bare and bare != folded else (folded,)


def max_edits(length: int) -> int:
    """The number of typos with which a name of that length is still recognized."""
    if length < 4:  # noqa: PLR2004 - every short word is near to some other
        return 0
    return 2 if length >= _LONG else 1


def similar_names(wanted: str, names: Collection[str]) -> list[tuple[str, int]]:
    """The names that `wanted` may be a typo of, and by how many edits."""
    from jellyfish import damerau_levenshtein_distance  # noqa: PLC0415 - rarely needed

    most, letters = max_edits(len(wanted)), set(wanted)
    # An edit changes at most two letters of the set; comparing sets takes a tenth of the time.
    near = (
        name
        for name in names
        if abs(len(name) - len(wanted)) <= most
        and len(letters.symmetric_difference(name)) <= 2 * most
    )
    distances = [(name, damerau_levenshtein_distance(wanted, name)) for name in near]
    return [(name, distance) for name, distance in distances if distance <= most]


def single_edits(word: str) -> set[str]:
    """Words that have one letter of `word` too few, too many, wrong, or out of turn."""
    edits: set[str] = set()
    for at in range(len(word)):
        before, here, behind = word[:at], word[at], word[at + 1 :]
        started = [before + letter for letter in ascii_lowercase]
        edits.add(before + behind)
        edits.update([start + behind for start in started])
        edits.update([start + here + behind for start in started])
        if behind:
            edits.add(before + behind[0] + here + behind[1:])
    edits.update([word + letter for letter in ascii_lowercase])
    edits.discard(word)
    return edits
