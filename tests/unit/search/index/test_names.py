from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.postings import (
    docs_named,
    make_name_list,
    name_pairs,
    names_with_part,
)
from discovery_engine.search.text.tokenizer import max_edits, similar_names

LETTERS = "ab"  # few, so that names are near each other
NAMES = st.lists(st.text(LETTERS, min_size=8, max_size=8), max_size=30)
WANTED = st.text(LETTERS, min_size=4, max_size=12)


@given(NAMES)
def test_each_name_gives_the_tools_that_have_it(names: list[str]) -> None:
    pairs = [(name, doc) for doc, name in enumerate(names)]

    packed = make_name_list(pairs)

    assert list(name_pairs(packed, 8)) == sorted(pairs)
    for name in (*names, "abababab", "zzzzzzzz"):
        assert docs_named(packed, name) == [doc for one, doc in pairs if one == name]


@given(NAMES, WANTED)
def test_no_name_within_a_typo_or_two_is_passed_over(names: list[str], wanted: str) -> None:
    packed = make_name_list((name, doc) for doc, name in enumerate(names))

    looked_at = names_with_part(packed, 8, wanted, max_edits(len(wanted)))

    assert set(similar_names(wanted, names)) == set(similar_names(wanted, list(looked_at)))
