"""An estimate of the tokens of a text, without the tokenizer of the model that will read it.

A text is split where tokenizers split it (words of an identifier, groups of digits, runs of marks,
single wide characters), and each kind of piece has a price. The prices were fitted to what
two public tokenizers count for definitions, signatures and sentences in a dozen languages.
`scripts/fit_token_prices.py` fits them again and shows how flat the optimum is: over 2,049 texts
the shipped prices are off by 12.2 % a text and 2.2 % together, the best ones by 11.1 % and 0.6 %.
`benchmarks/tokens.py` shows the error on what agents read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
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
_PRICES = {
    "word": 1.0,
    "digits": 1.4,
    "break": 0.65,
    "blank": 0.85,
    "mark": 0.55,
    "wide": 0.9,
    "sign": 1.2,
    "cyrillic": 0.4,
    "letter": 0.7,
    "rest": 2.7,
}
# A long piece costs more: the characters that its price includes, and the price of each further.
_LONG_WORD = (6, 0.1)
_ENDLESS_WORD = (12, 0.25)  # in addition: no natural word, so its letters are tokenized in groups
_LONG_MARK = (2, 0.35)
_ACCENT = 0.5  # of a letter beyond ASCII in a word


def estimated_tokens(text: str) -> int:
    """The estimated number of tokens; at least one, unless `text` is empty."""
    return math.ceil(sum(map(_price, _PIECES.finditer(text))))


def _price(piece: re.Match[str]) -> float:
    kind = piece.lastgroup or "rest"
    price = _PRICES[kind]
    if kind == "word":
        accents = 0 if piece[0].isascii() else sum(letter > "\x7f" for letter in piece[0])
        long = _beyond(piece, _LONG_WORD) + _beyond(piece, _ENDLESS_WORD)
        return price + long + accents * _ACCENT
    return price + _beyond(piece, _LONG_MARK) if kind == "mark" else price


def _beyond(piece: re.Match[str], allowance: tuple[int, float]) -> float:
    length, price = allowance
    return max(0, piece.end() - piece.start() - length) * price
