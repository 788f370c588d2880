from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.lru import SizedLru


def test_what_was_used_last_is_kept() -> None:
    cache: SizedLru[str, int] = SizedLru(300)
    for number, name in enumerate("abc"):
        cache.add(name, number, 1)
    for number in range(297):
        cache.add(f"filler {number}", number, 1)

    assert cache.get("a") == 0
    cache.add("d", 3, 2)

    assert [cache.get(name) for name in "abcd"] == [0, None, None, 3]


def test_a_value_that_would_displace_many_is_not_kept() -> None:
    cache: SizedLru[str, int] = SizedLru(300)

    cache.add("a", 0, 4)

    assert cache.get("a") is None
    assert cache.size == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12))))
def test_size_is_that_of_the_kept_values_and_within_the_limit(added: list[tuple[int, int]]) -> None:
    cache: SizedLru[int, int] = SizedLru(1000)
    sizes: dict[int, int] = {}
    for key, size in added:
        if cache.get(key) is None and size <= 10:
            sizes[key] = size
        cache.add(key, key, size)

    kept = [key for key in sizes if cache.get(key) is not None]
    assert cache.size == sum(sizes[key] for key in kept) <= 1000
