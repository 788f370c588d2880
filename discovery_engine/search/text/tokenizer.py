"""Text cut into words, the same way for tools and for queries.

    create_issue, create-issue, createIssue   create, issue
    getUserByID, HTTPServerError, getKPIs     get, user, by, id; http, server, error; get, kpi
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

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai and Lao
    "\u3040-\u30ff"  # Hiragana and Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Hangul: spaced by phrases, so pairs find the words inside
)
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "æ": "ae", "œ": "oe"}
)  # Latin letters that Unicode does not take apart
_ASCII_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ASCII_CHUNK = re.compile(r"\S+")
_PLURAL = re.compile(r"(?<=[A-Z]{2})s(?![a-z])")  # no stemmer reduces kpis to KPI


def words(text: str, *, characters: bool = False) -> list[str]:
    """The folded words of `text`, in order.

    With `characters`, text without spaces gives its single characters too: a tool is indexed
    that way, so that a query of one character finds it.
    """
    if text.isascii():
        return _ascii_words(text)
    found: list[str] = []
    for word in runs(text):
        if is_unspaced(word):
            found += bigrams(word)
            if characters and len(word) > 1:
                found += word
        else:
            found.append(word)
    return found


def runs(text: str) -> list[str]:
    """The folded words of `text`, in order; what is written without spaces is left in one."""
    if text.isascii():
        return _ascii_words(text)
    bare = _without_accents(_PLURAL.sub(" ", text))
    return [word.casefold() for word in _word().findall(bare)]


def truncate_words(text: str, *, most: int) -> str:
    """`text` up to its `most`-th word; of a script without spaces, two characters are a word."""
    if len(text) <= most:
        return text
    chunk = _ASCII_CHUNK if text.isascii() else _countable()
    beyond = next(islice(chunk.finditer(text), most, None), None)
    return text[: beyond.start()] if beyond else text


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that puts no spaces between words."""
    return not word.isascii() and bool(_unspaced().match(word))


def bigrams(run: str) -> list[str]:
    """Each two neighbouring characters; a lone character stays as it is."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def fold(text: str) -> str:
    """Letters and digits alone, folded: equal for every spelling of the same name."""
    if text.isascii():
        return "".join(filter(str.isalnum, text)).lower()
    return "".join(filter(str.isalnum, _without_accents(text))).casefold()


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


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    bare = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare)  # puts Hangul syllables together again
