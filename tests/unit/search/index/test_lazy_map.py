from __future__ import annotations

import marshal

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.lazy_map import (
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


def test_only_the_piece_that_holds_a_key_is_opened() -> None:
    held, buckets = pack_buckets({str(n): n for n in range(100)})
    [number] = [n for n, bucket in enumerate(buckets) if "7" in marshal.loads(bucket)]
    rest = [bucket if n == number else b"what no one opens" for n, bucket in enumerate(buckets)]

    pieces: LazyBuckets[int] = LazyBuckets((held, rest))

    assert pieces.get("7") == 7
    assert pieces["7"] == 7


def test_most_keys_that_are_not_there_open_nothing() -> None:
    held, buckets = pack_buckets({f"word{n}": n for n in range(1, 1000)})
    pieces = Counting((held, buckets))

    assert not pieces.among([f"other{n}" for n in range(1000)])

    assert pieces.opened < 150


class Counting(LazyBuckets[int]):
    opened = 0

    def _decode(self, number: int) -> None:
        self.opened += 1
        super()._decode(number)


@given(st.dictionaries(st.integers(), st.lists(st.integers(0, 9))))
def test_what_was_sealed_comes_back(mapping: dict[int, list[int]]) -> None:
    values: LazyValues[list[int]] = LazyValues(pack_values(mapping))

    assert all(values.get(key) == value for key, value in mapping.items())
    assert values.get(max(mapping, default=0) + 1) is None
    assert values == mapping


def test_a_value_that_is_not_asked_for_stays_sealed() -> None:
    values: LazyValues[str] = LazyValues({1: pack_values({1: "one"})[1], 2: b"what no one opens"})

    assert values[1] == "one"
    assert list(values) == [1, 2]
