"""Relevance: what a name, words and tags that fit add up to, and what the use of a tool adds."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from discovery_engine.config.settings import Weights

_USAGE_SHARE = 0.02  # the most that usage adds: less than separates tools that fit unalike


def relevance_parts(
    weights: Weights, *, exact: float, partial: float, tag: float
) -> tuple[float, float, float]:
    """Noisy-or: each part adds its share of what the parts before it left to 1."""
    by_exact = weights.exact * exact
    by_partial = (1 - by_exact) * weights.partial * partial
    by_tag = (1 - by_exact - by_partial) * weights.tag * tag
    return by_exact, by_partial, by_tag


def usage_part(parts: tuple[float, ...], share: float) -> float:
    """Return what a tool's share of usage, from 0 to 1, adds; 0 if the tool does not fit at all."""
    return (1 - sum(parts)) * _USAGE_SHARE * share if any(parts) else 0.0


def name_likeness(query: str) -> Callable[[str], int]:
    """How many words of a name a query has in the same form, and how many pairs in that order.

    It decides between equal hits alone: those of `text_to_speech` and `speech_to_text`, or of
    `get_issue` and `get_issues`.
    """
    places = {word: place for place, word in reversed(list(enumerate(words(query))))}

    def likeness(name: str) -> int:
        held = [places[word] for word in words(name) if word in places]
        return len(held) + sum(place < other for place, other in pairwise(held))

    return likeness
