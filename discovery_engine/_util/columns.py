"""How many columns of a terminal a text takes: a Chinese character two, an accent none."""

from __future__ import annotations

import unicodedata


def columns_of(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(map(_of_character, text))


def _of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
