"""The quick look for disguises: whether a text needs more than to be read as it stands.

Most texts are printable ASCII without long words, odd signs or code. For them, the detectors of
hidden characters, credentials, commands and encoded text have nothing to find, and a plain
reading is all there is. Each word is asked once, and remembered; what spans several words is
searched for only where one of them may be a part of it.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_

from discovery_engine.scanner.commands import MARKS as COMMANDS
from discovery_engine.scanner.credentials import MARKS as CREDENTIALS
from discovery_engine.scanner.payloads import (
    LONGEST_WORD,
    MIRRORED,
    SIGNS,
    TURNED,
    may_be_code,
)
from discovery_engine.scanner.remembering import Remembering

_FOREIGN_WORDS = TURNED | MIRRORED
_LITERALS = (*SIGNS, *CREDENTIALS)
_NUMBERS = re.compile(r"[0-9][0-9a-fA-F]?[ :,]+(?:0x)?[0-9a-fA-F]{2}\b|[01]{8}")
_LEET = r"[0-8@$!|][a-zA-Z]|[a-zA-Z][0-8@$!|]+[a-zA-Z]"
_JOINED = r"[-_.*~]+[a-zA-Z]+[-_.*~]+[a-zA-Z]+[-_.*~]+[a-zA-Z]"
_BLANKS = str.maketrans("\n\t", "  ")
_LETTERS = 4  # single letters in a row that may be a word
_SPACED = re.compile(r"(?:\b\w[ \t]){4}\w\b")
_PHRASE = re.compile("|".join(map(re.escape, _LITERALS)))
_COMMAND = re.compile("|".join(map(re.escape, COMMANDS)))
_ODD = re.compile(f"{_PHRASE.pattern}|{_NUMBERS.pattern}|{_LEET}|{_JOINED}")
_LAST_WORDS = {literal.rpartition(" ")[2] for literal in (*_LITERALS, *COMMANDS) if " " in literal}
_NUMBER = re.compile(r"[0-9][0-9a-fA-F]?[:,]*$")
"""The end of a word with which a row of numbers may begin."""
_LAST_WORD = re.compile("|".join(map(re.escape, sorted(_LAST_WORDS))), re.IGNORECASE)
"""The beginning of a word with which a literal of several words may end."""
_IN_WORD = 1  # a disguise by itself,
_IN_NUMBERS = 2  # or perhaps together with the numbers beside it,
_IN_PHRASE = 4  # or with the words before it


def is_undisguised(text: str) -> bool:
    """Whether a text holds nothing but what its letters say."""
    if not text.isascii() or not text.translate(_BLANKS).isprintable():
        return False
    words = text.split()
    marks = reduce(or_, map(_marks.__getitem__, words), 0)
    if marks & _IN_WORD:
        return False
    if list(map(len, words)).count(1) > _LETTERS and _SPACED.search(text):
        return False
    if marks & _IN_NUMBERS and _NUMBERS.search(text):
        return False
    return not (marks & _IN_PHRASE and _has_phrase(text, words))


def _has_phrase(text: str, words: list[str]) -> bool:
    return bool(_PHRASE.search(text) or _COMMAND.search(" ".join(words).lower()))


def _marks_of(word: str) -> int:
    lower = word.lower()
    if lower in _FOREIGN_WORDS or _ODD.search(word) or _COMMAND.search(lower):
        return _IN_WORD
    if len(word) >= LONGEST_WORD and may_be_code(word):
        return _IN_WORD
    numbers = _IN_NUMBERS if _NUMBER.search(word) else 0
    return numbers | (_IN_PHRASE if _LAST_WORD.match(word) else 0)


_marks = Remembering(_marks_of)
