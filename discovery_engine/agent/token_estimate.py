"""An estimate of the tokens of a text, without the tokenizer of the model that will read it.

A text is split where tokenizers split it (words of an identifier, groups of digits, runs of marks,
single wide characters), and each kind of piece has a price. The prices were fitted to what
two public tokenizers count for definitions, signatures and sentences in a dozen languages.
`scripts/fit_token_prices.py` fits them again and shows how flat the optimum is: over 2,049 texts
the shipped prices are off by 12.2 % a text and 2.2 % together, the best ones by 11.1 % and 0.6 %.
`benchmarks/tokens.py` shows the error on what agents read.

Prices are added as integers, so the price of a text is exactly the sum of the prices of its words
and lines. Agents read the same words again and again: the price of a word is computed once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

TokenCount: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text: a tokenizer's own count, or an estimate."""

_PIECES = re.compile(
    r"(?P<word> ?(?:[A-Z\xc0-\xde]?[a-z\xdf-\u024f]+|[A-Z]+(?![a-z])))"
    r"|(?P<digits> ?[0-9]{1,3})"
    r"|(?P<break>\s*\n)"
    r"|(?P<blank>\s+)"
    r"|(?P<mark> ?[!-/:-@\[-`{-~]+)"
    r"|(?P<wide> ?[\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef])"
    r"|(?P<sign> ?[\xa1-\xde])"
    r"|(?P<cyrillic> ?[\u0400-\u052f])"
    r"|(?P<letter> ?[\u0250-\u2e7f\ua4d0-\uabff])"
    r"|(?P<rest>.)"
)
UNITS = 20
"""Units in a token: every price is a multiple of a twentieth, and is written as that multiple."""

_PRICES = {
    "word": 20,
    "digits": 28,
    "break": 13,
    "blank": 17,
    "mark": 11,
    "wide": 18,
    "sign": 24,
    "cyrillic": 8,
    "letter": 14,
    "rest": 54,
}
# A long piece costs more: the characters that its price includes, and the price of each further.
_LONG_WORD = (6, 2)
_ENDLESS_WORD = (12, 5)  # in addition: no natural word, so its letters are tokenized in groups
_LONG_MARK = (2, 7)
_ENDLESS = 40  # characters of a piece that is divided rather than left out
_FURTHER = min(_LONG_WORD[1] + _ENDLESS_WORD[1], _LONG_MARK[1])  # of each of its characters
_SHORT = min(_LONG_WORD[0], _ENDLESS_WORD[0])  # characters of most words
_ACCENT = 10  # of a letter beyond ASCII in a word

_WORDS_CACHED = 8192  # some 150 bytes each
_LONGEST_CACHED = 64  # characters of a word; longer ones are rare, and would take up memory


def estimated_tokens(text: str) -> int:
    """The estimated number of tokens; at least one, unless `text` is empty."""
    lines = text.split("\n")
    price = _PRICES["break"] * (len(lines) - 1)
    for line in lines[:-1]:
        # A line break is one piece with the blanks and the empty lines before it.
        if not line or line[-1].isspace():
            return _tokens(_price(text))
        price += _line_price(line)
    return _tokens(price + _line_price(lines[-1]))


def end_within(text: str, tokens: int, start: int = 0) -> int:
    """The end of the longest part of `text` from `start` on that takes at most `tokens`.

    Only that part is looked at, however long the text is. It ends behind a piece, or within one
    that is endless: a key, a sequence, a rule of dashes.
    """
    left = tokens * UNITS
    for piece in _PIECES.finditer(text, start):
        price = _piece_price(piece)
        if price > left:
            return piece.start() + _length_within(piece, left)
        left -= price
    return len(text)


def _length_within(piece: re.Match[str], price: int) -> int:
    """How much of a piece that costs more may stay; nothing of an ordinary one."""
    if len(piece[0]) <= _ENDLESS:
        return 0
    kind = piece.lastgroup or "rest"
    lengths = range(1, min(len(piece[0]), _ENDLESS + price // _FURTHER))
    return bisect_right(lengths, price, key=lambda length: _text_price(kind, piece[0][:length]))


def _tokens(price: int) -> int:
    return -(-price // UNITS)


def _line_price(line: str) -> int:
    words = line.split()
    # No piece but a run of blanks extends across a single blank.
    if " ".join(words) != line or max(map(len, words), default=0) > _LONGEST_CACHED:
        return _price(line)
    return _first_word_price(words[0]) + sum(map(_word_price, words[1:])) if words else 0


@lru_cache(maxsize=_WORDS_CACHED)
def _first_word_price(word: str) -> int:
    # The four lines of a tool begin with its name: no piece extends from a letter to a bracket.
    name, bracket, arguments = word.partition("(")
    if bracket and name and name[-1].isalnum():
        return _first_word_price(name) + _first_word_price(f"({arguments}")
    return _price(word)


@lru_cache(maxsize=_WORDS_CACHED)
def _word_price(word: str) -> int:
    """The price of a word with the blank before it."""
    return _price(f" {word}")


def _price(text: str) -> int:
    return sum(map(_piece_price, _PIECES.finditer(text)))


def _piece_price(piece: re.Match[str]) -> int:
    return _text_price(piece.lastgroup or "rest", piece[0])


def _text_price(kind: str, text: str) -> int:
    price = _PRICES[kind]
    if kind == "word":
        accents = 0 if text.isascii() else sum(letter > "\x7f" for letter in text)
        return price + _long_price(len(text)) + accents * _ACCENT
    return price + _beyond(len(text), _LONG_MARK) if kind == "mark" else price


def _long_price(length: int) -> int:
    """Return the surcharge of a word of that length."""
    return _beyond(length, _LONG_WORD) + _beyond(length, _ENDLESS_WORD) if length > _SHORT else 0


def _beyond(length: int, allowance: tuple[int, int]) -> int:
    allowed, price = allowance
    return max(0, length - allowed) * price
