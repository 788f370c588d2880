"""Chooses what an answer contains, and in how much detail, within a number of tokens.

Each item of an answer (a hit, a tool of a list, an argument) has several variants, from a bare
name to all of its text. This is a multiple-choice knapsack problem: the plan looks for the greatest

    usefulness = sum over the chosen items of  weight x value of the variant

The weight is how likely the reader needs the item; the value is how far the variant helps a reader
who needs it. The solution is greedy: take the step to a richer variant that adds the most
usefulness per token, until no step fits. A step may skip variants; of equal steps the first item's
is taken, so equal questions have equal answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.agent.token_estimate import TokenCount, estimated_tokens


class Budget(Struct, frozen=True):
    tokens: int
    """The most that a text may take; nothing fits a budget below zero."""
    count: TokenCount = estimated_tokens

    def fits(self, text: str) -> bool:
        return self.count(text) <= self.tokens

    def less(self, *lines: str) -> Budget:
        """The budget that is left after `lines`."""
        return replace(self, tokens=self.tokens - sum(map(self.price, lines)))

    def price(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self.count(f"{line}\n") if line else 0


class Variant(Struct, frozen=True):
    text: str
    value: float
    """How far it helps a reader who needs its item, from 0 to 1."""


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
        """Whether every item is chosen in its richest variant."""
        pairs = zip(self.items, self.chosen, strict=True)
        return all(at == len(item.variants) - 1 for item, at in pairs)


def plan(items: Sequence[Item], budget: Budget) -> Plan:
    """The variants of `items`, one below the other, within `budget`.

    A count that is no sum of its lines (a tokenizer's own) may take a second, smaller plan.
    """
    room = budget.tokens
    while True:
        made = Plan(tuple(items), tuple(_greedy(items, replace(budget, tokens=room))))
        excess = budget.count("\n".join(made.lines)) - budget.tokens
        if excess <= 0 or not made.lines:
            return made
        room = min(room, budget.tokens) - excess


def plan_with_note(items: Sequence[Item], budget: Budget, note: Callable[[Plan], str]) -> list[str]:
    """The lines of a plan and, unless it is empty, the `note` on that plan, within `budget`."""
    made = plan(items, budget)
    if not (text := note(made)):
        return made.lines
    # A plan without any item has the highest counts, and so the longest note.
    longest = note(replace(made, chosen=(None,) * len(items)))
    made = plan(items, budget.less(max(text, longest, key=budget.price)))
    lines = [*made.lines, note(made)]
    return lines if budget.fits("\n".join(lines)) else []


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


def _greedy(items: Sequence[Item], budget: Budget) -> list[int | None]:
    prices = [_prices(item, budget) for item in items]
    chosen: list[int | None] = [None] * len(items)
    room = budget.tokens
    queue: list[tuple[float, int, int]] = []

    def offer(place: int) -> None:
        if step := _best_step(items[place], prices[place], chosen[place], room):
            gain, variant = step
            heapq.heappush(queue, (-gain, place, variant))

    for place in range(len(items)):
        offer(place)
    while queue:
        _, place, variant = heapq.heappop(queue)
        cost = prices[place][variant] - _paid(prices[place], chosen[place])
        if cost <= room:
            chosen[place] = variant
            room -= cost
        offer(place)
    return chosen


def _prices(item: Item, budget: Budget) -> list[int]:
    """The price of each variant; a richer one never costs less, so no step frees tokens."""
    return list(accumulate((budget.price(variant.text) for variant in item.variants), max))


def _paid(prices: Sequence[int], at: int | None) -> int:
    return 0 if at is None else prices[at]


def _best_step(
    item: Item, prices: Sequence[int], at: int | None, room: int
) -> tuple[float, int] | None:
    """The gain and the index of the variant that adds the most usefulness per token and fits."""
    value = 0.0 if at is None else item.variants[at].value
    paid = _paid(prices, at)
    steps = [
        (item.weight * (richer.value - value) / max(prices[index] - paid, 0.5), index)
        for index, richer in enumerate(item.variants)
        if (at is None or index > at) and prices[index] - paid <= room
    ]
    return max(steps, default=None)
