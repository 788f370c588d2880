from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.postings import (
    LazyBuckets,
    LazyValues,
    pack_buckets,
    pack_values,
)

KEYS = st.text(st.characters(), max_size=8)
MAPPINGS = st.dictionaries(KEYS, st.lists(st.integers(0, 9)), max_size=40)


@given(MAPPINGS, st.lists(KEYS, max_size=5))
def test_what_was_packed_is_found_by_its_keys(
    mapping: dict[str, list[int]], others: list[str]
) -> None:
    pieces: LazyBuckets[list[int]] = LazyBuckets(pack_buckets(mapping))

    for key in [*mapping, *others]:
        assert pieces.get(key) == mapping.get(key)
        assert pieces.get(key, []) == mapping.get(key, [])
        assert (key in pieces) == (key in mapping)
    assert pieces.among({*mapping, *others}) == mapping.keys()
    assert len(pieces) == len(mapping)


@given(MAPPINGS)
def test_what_was_packed_comes_back_whole(mapping: dict[str, list[int]]) -> None:
    packing = pack_buckets(mapping)

    pieces: LazyBuckets[list[int]] = LazyBuckets(packing)
    for key in list(mapping)[::3]:
        pieces.get(key)

    assert pieces == mapping
    assert dict(pieces.items()) == mapping
    assert pack_buckets(pieces) == packing


@given(st.dictionaries(st.integers(), st.lists(st.integers(0, 9))))
def test_what_was_sealed_comes_back(mapping: dict[int, list[int]]) -> None:
    values: LazyValues[list[int]] = LazyValues(pack_values(mapping))

    assert all(values.get(key) == value for key, value in mapping.items())
    assert values.get(max(mapping, default=0) + 1) is None
    assert values == mapping
