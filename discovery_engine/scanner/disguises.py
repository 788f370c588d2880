"""The quick look for disguises: whether a text needs more than to be read as it stands.

Most texts are printable ASCII without long words, odd signs or code. For them, the detectors of
hidden characters, credentials, commands and encoded text have nothing to find, and a plain
reading is all there is. A few searches for literals decide that: a tenth of what it takes to ask
each detector.
"""

from __future__ import annotations

import re

from discovery_engine.scanner.commands import MARKS as COMMANDS
from discovery_engine.scanner.credentials import MARKS as CREDENTIALS
from discovery_engine.scanner.payloads import LONGEST_WORD, MIRRORED, SIGNS, TURNED

_FOREIGN_WORDS = TURNED | MIRRORED
_LITERALS = (*SIGNS, *CREDENTIALS)
_NUMBERS = re.compile(r"[0-9][0-9a-fA-F]?[ :,]+(?:0x)?[0-9a-fA-F]{2}\b|[01]{8}")
_BLANKS = str.maketrans("\n\t", "  ")
_HEX = re.compile(r"[0-9a-f]{20}")
_LETTERS = 4  # single letters in a row that may be a word
_LEET = re.compile(r"[0-8@$!|][a-zA-Z]|[a-zA-Z][0-8@$!|]+[a-zA-Z]")
_JOINED = re.compile(r"[-_.*~]+[a-zA-Z]+[-_.*~]+[a-zA-Z]+[-_.*~]+[a-zA-Z]")


def is_undisguised(text: str) -> bool:
    """Whether a text holds nothing but what its letters say."""
    if not text.isascii() or not text.translate(_BLANKS).isprintable():
        return False
    words = text.split()
    lengths = list(map(len, words))
    if lengths.count(1) > _LETTERS:
        return False
    if max(lengths, default=0) >= LONGEST_WORD and _may_be_code(words):
        return False
    words = text.lower().split()
    if _has(text, _LITERALS) or not _FOREIGN_WORDS.isdisjoint(words):
        return False
    if _NUMBERS.search(text) or _LEET.search(text) or _JOINED.search(text):
        return False
    return not _has(" ".join(words), COMMANDS)


def _has(text: str, literals: tuple[str, ...]) -> bool:
    for literal in literals:  # noqa: SIM110 - a generator takes longer than what it asks
        if literal in text:
            return True
    return False


def _may_be_code(words: list[str]) -> bool:
    """Whether a long word may be base64, base32 or hexadecimal.

    Text as base64 has letters of both cases, for each letter of ASCII begins with a low bit; so
    the long names of parameters are none.
    """
    return any(
        len(word) >= LONGEST_WORD and (not word.islower() or _HEX.search(word)) for word in words
    )
