"""Chooses what of an answer is told, and in how much detail, within a number of tokens.

Each item of an answer (a hit, a tool of a list, an argument) can be told in several forms, from a
bare name to everything. The plan looks for the greatest

    usefulness = sum over the items told of  weight x value of the form

where the weight says how likely the item is what the reader needs, and the value how far the form
gets a reader who needs it. It takes, again and again, the step to a richer form that adds the most
usefulness for its tokens, until no step fits. A step may pass over forms; of equal steps the first
item's is taken. So equal questions have equal answers, whatever they are made of.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.agent.tokens import TokenCount, estimated_tokens


class Budget(Struct, frozen=True):
    tokens: int
    """The most that a text may take; a budget below zero has room for nothing."""
    count: TokenCount = estimated_tokens

    def fits(self, text: str) -> bool:
        return self.count(text) <= self.tokens

    def less(self, *lines: str) -> Budget:
        """What is left when `lines` have been told."""
        return replace(self, tokens=self.tokens - sum(map(self.price, lines)))

    def price(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self.count(f"{line}\n") if line else 0


class Form(Struct, frozen=True):
    text: str
    value: float
    """How far it gets a reader who needs its item: 1 is all the way."""


class Item(Struct, frozen=True):
    weight: float
    """How likely it is what the reader needs, beside the other items."""
    forms: tuple[Form, ...]
    """The poorest first; at least one."""


class Plan(Struct, frozen=True):
    items: tuple[Item, ...]
    chosen: tuple[int | None, ...]
    """The form of each item; None for an item that is left out."""

    @property
    def lines(self) -> list[str]:
        pairs = zip(self.items, self.chosen, strict=True)
        return [item.forms[at].text for item, at in pairs if at is not None]

    @property
    def left_out(self) -> int:
        return self.chosen.count(None)

    @property
    def is_whole(self) -> bool:
        """Whether every item is told in its richest form."""
        pairs = zip(self.items, self.chosen, strict=True)
        return all(at == len(item.forms) - 1 for item, at in pairs)


def plan(items: Sequence[Item], budget: Budget) -> Plan:
    """The forms to tell `items` in, one under the other, within `budget`.

    A count that is no sum of its lines (a tokenizer's own) may take a second, smaller plan.
    """
    room = budget.tokens
    while True:
        made = Plan(tuple(items), tuple(_greedy(items, replace(budget, tokens=room))))
        excess = budget.count("\n".join(made.lines)) - budget.tokens
        if excess <= 0 or not made.lines:
            return made
        room = min(room, budget.tokens) - excess


def plan_noting(items: Sequence[Item], budget: Budget, note: Callable[[Plan], str]) -> list[str]:
    """The lines of a plan, and what `note` says of it unless that is nothing, all within budget."""
    made = plan(items, budget)
    if not (said := note(made)):
        return made.lines
    # The note of a plan that tells nothing counts the most, so it is the longest.
    longest = note(replace(made, chosen=(None,) * len(items)))
    made = plan(items, budget.less(max(said, longest, key=budget.price)))
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
    """`total` divided fairly, whoever asks first.

    Nobody gets more than asked for, or more than an equal part of what the modest leave over.
    """
    level, left = 0, total
    modest = sorted(needs)
    for place, need in enumerate(modest):
        level = left // (len(modest) - place)
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
            gain, form = step
            heapq.heappush(queue, (-gain, place, form))

    for place in range(len(items)):
        offer(place)
    while queue:
        _, place, form = heapq.heappop(queue)
        cost = prices[place][form] - _paid(prices[place], chosen[place])
        if cost <= room:
            chosen[place] = form
            room -= cost
        offer(place)
    return chosen


def _prices(item: Item, budget: Budget) -> list[int]:
    """Of each form; a richer one never costs less, so that a step never gives tokens back."""
    return list(accumulate((budget.price(form.text) for form in item.forms), max))


def _paid(prices: Sequence[int], at: int | None) -> int:
    return 0 if at is None else prices[at]


def _best_step(
    item: Item, prices: Sequence[int], at: int | None, room: int
) -> tuple[float, int] | None:
    """The richer form that adds the most usefulness for its tokens, and fits; the gain first."""
    told = 0.0 if at is None else item.forms[at].value
    paid = _paid(prices, at)
    steps = [
        (item.weight * (item.forms[form].value - told) / max(prices[form] - paid, 0.5), form)
        for form in range(0 if at is None else at + 1, len(item.forms))
        if prices[form] - paid <= room
    ]
    return max(steps, default=None)
