"""Chooses what an answer contains, and in how much detail, within a number of tokens.

Each item of an answer (a hit, a tool of a list, an argument) has several variants, from a bare
name to all of its text. This is a multiple-choice knapsack problem: the plan looks for the greatest

    usefulness = sum over the chosen items of  weight x value of the variant

The weight is how likely the reader needs the item; the value is how far the variant helps a reader
who needs it. The solution is greedy: take the step to a richer variant that adds the most
usefulness per token, until no step fits. A step may skip variants; of equal steps the first item's
is taken, so equal questions have equal answers.

Each variant is priced once for a plan, and with the default estimate once for as long as it is
kept; everything else adds integers.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.lazy_pattern import lazy_pattern

TokenCount: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text: a tokenizer's own count, or an estimate."""

_PIECES = lazy_pattern(
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
    """Return the length that a piece of a higher cost may have; 0 for an ordinary one."""
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


MOST_TOKENS = 25_000
"""The largest `maxTokens` that counts: with more, one client would hold up all others for long."""

Prices: TypeAlias = list[int]
"""Prices of the variants of one item; a richer one never costs less, so no step frees tokens."""


class Budget(Struct, frozen=True):
    tokens: int
    """The most that a text may take; nothing fits a budget below zero."""
    count: TokenCount = estimated_tokens
    is_most: bool = False
    """True if a caller may ask for no larger budget."""

    def more(self, instead: str = "") -> str:
        """Advice on how to get what does not fit; `instead` names another way."""
        if self.is_most:
            return "; ".join(filter(None, (f"{MOST_TOKENS:,} tokens are the most", instead)))
        return ", or ".join(filter(None, ("raise maxTokens", instead)))

    def fits(self, text: str) -> bool:
        return self.count(text) <= self.tokens

    def less(self, *lines: str) -> Budget:
        """The budget that is left after `lines`."""
        return replace(self, tokens=self.tokens - sum(map(self.price, lines)))

    def price(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self.count(f"{line}\n") if line else 0

    def prices(self, item: Item) -> Prices:
        """The prices of the variants of `item`."""
        if self._is_estimate:
            return list(accumulate([variant.estimate for variant in item.variants], max))
        return list(accumulate([self.price(variant.text) for variant in item.variants], max))

    def excess(self, lines: Sequence[str], *, price: int) -> int:
        """Tokens by which `lines` exceed it, or 0; `price` is the sum of their prices."""
        # An estimate is never more than the sum: it is rounded once, and not for each line.
        if self._is_estimate and price <= self.tokens:
            return 0
        return max(0, self.count("\n".join(lines)) - self.tokens)

    @property
    def _is_estimate(self) -> bool:
        return self.count is estimated_tokens


class Variant(Struct, frozen=True, dict=True):
    text: str
    value: float
    """Its use to a reader who needs the item, from 0 to 1."""

    @cached_property
    def estimate(self) -> int:
        """The price of its text by the default estimate."""
        return estimated_tokens(f"{self.text}\n") if self.text else 0


class Item(Struct, frozen=True):
    weight: float
    """The likelihood that the reader needs it, relative to the other items."""
    variants: tuple[Variant, ...]
    """The poorest first; at least one."""


class Plan(Struct, frozen=True):
    items: tuple[Item, ...]
    chosen: tuple[int | None, ...]
    """The variant of each item; None for an item that is left out."""

    @property
    def lines(self) -> list[str]:
        pairs = zip(self.items, self.chosen, strict=True)
        return [item.variants[at].text for item, at in pairs if at is not None]

    @property
    def left_out(self) -> int:
        return self.chosen.count(None)

    @property
    def is_whole(self) -> bool:
        """True if every item is chosen in its richest variant."""
        pairs = zip(self.items, self.chosen, strict=True)
        return all(at == len(item.variants) - 1 for item, at in pairs)


def plan(items: Sequence[Item], budget: Budget) -> Plan:
    """The variants of `items`, one below the other, within `budget`.

    A count that is no sum of its lines (a tokenizer's own) may take a second, smaller plan.
    """
    return _plan(items, list(map(budget.prices, items)), budget)


def plan_with_note(items: Sequence[Item], budget: Budget, note: Callable[[Plan], str]) -> list[str]:
    """The lines of a plan and, unless it is empty, the `note` on that plan, within `budget`."""
    prices = list(map(budget.prices, items))
    plan = _plan(items, prices, budget)
    if not (text := note(plan)):
        return plan.lines
    # A plan without any item has the highest counts, and so the longest note.
    longest = note(replace(plan, chosen=(None,) * len(items)))
    plan = _plan(items, prices, budget.less(max(text, longest, key=budget.price)))
    text = note(plan)
    lines = [*plan.lines, text]
    price = _sum(prices, plan.chosen) + budget.price(text)
    return [] if budget.excess(lines, price=price) else lines


def first_fitting(texts: Iterable[str], budget: Budget) -> str:
    """The first of `texts`, given the richest first, that fits; else the last."""
    text = ""
    for text in texts:
        if budget.fits(text):
            break
    return text


def shares(total: int, needs: Sequence[int]) -> list[int]:
    """`total` divided by max-min fairness, whatever the order of `needs`.

    None gets more than it needs; what small needs leave over is divided equally among the others.
    """
    level, left = 0, total
    for place, need in enumerate(sorted(needs)):
        level = left // (len(needs) - place)
        if need > level:
            break
        left -= need
    else:
        return list(needs)
    return [min(need, level) for need in needs]


def _plan(items: Sequence[Item], prices: Sequence[Prices], budget: Budget) -> Plan:
    space = budget.tokens
    while True:
        chosen = _greedy(items, prices, space)
        plan = Plan(tuple(items), tuple(chosen))
        lines = plan.lines
        excess = budget.excess(lines, price=_sum(prices, chosen))
        if not excess or not lines:
            return plan
        space = min(space, budget.tokens) - excess


def _sum(prices: Sequence[Prices], chosen: Sequence[int | None]) -> int:
    pairs = zip(prices, chosen, strict=True)
    return sum(of_item[at] for of_item, at in pairs if at is not None)


def _greedy(items: Sequence[Item], prices: Sequence[Prices], space: int) -> list[int | None]:
    chosen: list[int | None] = [None] * len(items)
    queue = [
        (-step[0], place, step[1])
        for place, item in enumerate(items)
        if (step := _best_step(item, prices[place], None, space))
    ]
    heapq.heapify(queue)
    while queue:
        _, place, variant = queue[0]
        cost = prices[place][variant] - _paid(prices[place], chosen[place])
        if cost <= space:
            chosen[place] = variant
            space -= cost
        if step := _best_step(items[place], prices[place], chosen[place], space):
            heapq.heapreplace(queue, (-step[0], place, step[1]))
        else:
            heapq.heappop(queue)
    return chosen


def _paid(prices: Prices, at: int | None) -> int:
    return 0 if at is None else prices[at]


def _best_step(item: Item, prices: Prices, at: int | None, space: int) -> tuple[float, int] | None:
    """The gain and the index of the variant that adds the most usefulness per token and fits."""
    variants = item.variants
    value, paid, first = (0.0, 0, 0) if at is None else (variants[at].value, prices[at], at + 1)
    best = None
    for index in range(first, len(variants)):
        cost = prices[index] - paid
        if cost > space:  # and so do all richer ones
            break
        gain = item.weight * (variants[index].value - value) / max(cost, 0.5)
        if best is None or gain >= best[0]:
            best = gain, index
    return best
