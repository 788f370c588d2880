"""Many items as a few at a time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.batches import batches


@given(sizes=st.lists(st.integers(0, 20)), most=st.integers(1, 30))
def test_batches_have_all_items_in_their_order_and_none_is_larger_than_it_may_be(
    sizes: list[int], most: int
) -> None:
    found = list(batches(sizes, lambda size: size, most=most))

    assert [size for batch in found for size in batch] == sizes
    assert all(batch for batch in found)
    assert all(sum(batch) <= most or len(batch) == 1 for batch in found)
    # Each is as large as it may be: the first item of the next would be too much.
    assert all(sum(one) + after[0] > most for one, after in pairwise(found))
