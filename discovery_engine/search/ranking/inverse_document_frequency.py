"""How much it tells about a tool that it says a word: a table counted over published tools.

A small catalog cannot know that `information` says little and `almanac` a lot, or that `checkout`
is a thing that tools do and `Zhang` is a name in somebody's request. `scripts/fit_confidence.py`
counts the words of the development sets' catalogs; the table has no word that fewer than three
tools say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).parents[1] / "data" / "commonness.txt"


@cache
def default_weights() -> Mapping[str, float]:
    """The weight of each stem, from 0 for one that every tool says to nearly 1."""
    return read_weights(_TABLE.read_text(encoding="utf-8").splitlines())


def read_weights(lines: Iterable[str]) -> dict[str, float]:
    """Weights from lines such as `0.45 almanac lunar`."""
    weights: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            weight, *stems = line.split()
            weights.update(dict.fromkeys(stems, float(weight)))
    return weights
