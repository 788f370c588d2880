"""Pages of a list that changes between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_server.api.paging import page


@given(
    st.sets(st.text(max_size=5), max_size=30),
    st.sets(st.text(max_size=5), max_size=5),
    st.integers(1, 7),
)
def test_what_is_there_throughout_is_in_exactly_one_page(
    staying: set[str], leaving: set[str], limit: int
) -> None:
    items, shown, cursor = sorted(staying | leaving), list[str](), ""
    while True:
        part, following = page(items, lambda item: (item,), cursor, limit)
        shown += part
        items = sorted(staying)  # the others are removed behind the first page
        if following is None:
            break
        cursor = following

    assert [item for item in shown if item in staying] == sorted(staying)
