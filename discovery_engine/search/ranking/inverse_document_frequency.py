"""Inverse document frequencies of words in published tools.

A small catalog does not show that `information` is a common word of tools and `almanac` a rare one,
or that `checkout` is something that tools do and `Zhang` a name in a request. The table is
counted by `scripts/fit_confidence.py` over the catalogs of the development sets; words that fewer
than three tools contain are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).parents[1] / "data" / "inverse_document_frequency.txt"


@cache
def default_idf() -> Mapping[str, float]:
    """Return the idf of each stem, from 0 for one that every tool contains to nearly 1."""
    return parse_idf(_TABLE.read_text(encoding="utf-8").splitlines())


def parse_idf(lines: Iterable[str]) -> dict[str, float]:
    """From lines such as `0.45 almanac lunar`."""
    table: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            idf, *stems = line.split()
            table.update(dict.fromkeys(stems, float(idf)))
    return table
