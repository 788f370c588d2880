"""Normalization of text before it is matched.

`plain` replaces compatibility forms, removes hidden characters, and replaces letters of other
alphabets in Latin words by the Latin ones that they imitate. `loose` also replaces digits that
stand for letters, and removes signs and spaces between letters.
"""

from __future__ import annotations

import re
import unicodedata

from discovery_engine._util.text import clean, unseen
from discovery_engine.scanner.confusables import CONFUSABLES

_HOMOGLYPHS = str.maketrans(
    {letter: ascii_ for ascii_, letters in CONFUSABLES.items() for letter in letters}
)
_FOREIGN = re.compile(
    "[{}]".format(
        "".join(
            letter
            for letters in CONFUSABLES.values()
            for letter in letters + letters.upper()
            if "LATIN" not in unicodedata.name(letter, "")
        )
    )
)
"""Confusable letters of other alphabets; those of Latin script belong in Latin words."""
_LEET = str.maketrans("0134578@$!|", "oieastbasil")
_WORD = re.compile(r"[^\W\d_]{2,}|[^\W_]{2,}")
_LATIN = re.compile(r"[a-zA-Z]")
_LEET_SIGN = re.compile(r"[0-8@$!|]")
_LEETWORD = re.compile(r"[a-z]*[0-8@$!|][a-z]+[0-8@$!|a-z]*|[a-z]+[0-8@$!|]+[a-z]+")
_SPACED = re.compile(r"\b(?:\w ){4,}\w\b(?: {2,}(?:\w ){2,}\w\b)*")
_JOINED = re.compile(r"(?<![a-z])[a-z]+(?:[-_.*~]+[a-z]+){3,}")
"""Four words: fewer are a name, or an honest compound."""
_SEPARATORS = re.compile(r"[-_.*~]+")
_LEET_WORDS = 2  # fewer are a version or a format
_LINES = str.maketrans("\n\t", "  ")
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n ]")  # a single space stays as it is


def plain(text: str) -> str:
    """The plain reading, in lower case; lines and sentences stay where they are."""
    if not text.isascii() or not text.translate(_LINES).isprintable():
        text = clean(_without_unseen(unicodedata.normalize("NFKC", _without_unseen(text))))
        text = latinised(text)
    return _BLANKS.sub(" ", text.lower().replace("\u2019", "'"))


def loose(text: str) -> str:
    """The loose reading of a text; equal to the plain one if there is nothing to undo."""
    spaced = _SPACED.sub(_closed, clean(text)).lower()
    read = plain(spaced)
    if _LEET_SIGN.search(read) and len(_LEETWORD.findall(read)) >= _LEET_WORDS:
        read = _LEETWORD.sub(lambda found: found[0].translate(_LEET), read)
    return _JOINED.sub(lambda found: _SEPARATORS.sub(" ", found[0]), read)


def latinised(text: str) -> str:
    """`text` with letters of other alphabets replaced in words that also have Latin ones."""
    if text.isascii() or not _FOREIGN.search(text):
        return text
    return _WORD.sub(_latin_word, text)


def letters_only(name: str) -> str:
    """A name as it looks: in ASCII where each letter passes for an ASCII one."""
    shown = unicodedata.normalize("NFKC", _without_unseen(name))
    return shown.casefold().translate(_HOMOGLYPHS)


def mixes_alphabets(word: str) -> bool:
    """Whether Latin letters stand beside letters of another alphabet that pass for them."""
    return any(
        _LATIN.search(part) and _FOREIGN.search(part) and letters_only(part).isascii()
        for part in _WORD.findall(unicodedata.normalize("NFKC", word))
    )


def _latin_word(found: re.Match[str]) -> str:
    word = found[0]
    if not (_LATIN.search(word) and _FOREIGN.search(word)):
        return word
    return word.lower().translate(_HOMOGLYPHS)


def _closed(found: re.Match[str]) -> str:
    return re.sub(r" {2,}", "\x00", found[0]).replace(" ", "").replace("\x00", " ")


def _without_unseen(text: str) -> str:
    pieces = []
    at = 0
    for run in unseen(text):
        pieces.append(text[at : run.start()])
        at = run.end()
    return "".join([*pieces, text[at:]])
