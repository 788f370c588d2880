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
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.agent.token_estimate import TokenCount, estimated_tokens

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
        """How a reader gets what does not fit; `instead` names another way."""
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
    """How far it helps a reader who needs its item, from 0 to 1."""

    @cached_property
    def estimate(self) -> int:
        """The price of its text by the default estimate."""
        return estimated_tokens(f"{self.text}\n") if self.text else 0


class Item(Struct, frozen=True):
    weight: float
    """How likely it is what the reader needs, beside the other items."""
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
