"""An index is made in little more memory than it takes itself."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest

from discovery_engine.marketplace.entry_documents import entry_lexicon
from discovery_engine.marketplace.entry_index import EntryIndex, IndexedEntry, packed_index

_ENTRIES = 3_000
LIMIT = 4.2  # times its bytes; held as a whole, it takes 5.2


def entries() -> Iterator[IndexedEntry]:
    """The same each time: each of 40 terms, of which some are in many entries."""
    chance = random.Random(3)
    for number in range(_ENTRIES):
        terms = {f"t{int(chance.paretovariate(0.6)) % 9_000}": 1 + number % 200 for _ in range(40)}
        yield IndexedEntry(number, "a", [f"acme/server-{number}", f"server {number}"], terms)


@pytest.mark.thorough
@pytest.mark.requirement("MKT-67")
def test_what_an_index_is_made_of_is_never_held_as_a_whole() -> None:
    lexicon = entry_lexicon()
    tracemalloc.start()
    try:
        data = packed_index(entries)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    loaded = EntryIndex.load(data, lexicon)
    assert loaded is not None
    assert loaded.size == _ENTRIES
    assert peak < LIMIT * len(data), peak / len(data)
