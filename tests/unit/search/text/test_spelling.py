from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from discovery_engine.search.text.spelling import (
    max_edits,
    name_spellings,
    query_spellings,
    similar_names,
    single_edits,
)
from tests.factories import make_tool
from tests.rows import rows


def test_a_tool_is_spelled_with_and_without_its_server() -> None:
    tool = make_tool("createIssue", "git-hub")

    assert name_spellings(tool) == {"createissue", "githubcreateissue"}


def test_the_upstreams_own_name_is_a_spelling_too() -> None:
    tool = make_tool("get", "a", prefix="x_")

    assert name_spellings(tool) == {"xget", "get", "axget", "aget"}


def test_a_name_without_letters_stays_as_it_is() -> None:
    assert "!!!" in name_spellings(make_tool("!!!", "a"))
    assert query_spellings("!!!") == ("!!!",)


def test_the_prefix_of_some_hosts_is_read_away() -> None:
    assert query_spellings("mcp__github__create_issue") == (
        "mcpgithubcreateissue",
        "githubcreateissue",
    )


@pytest.mark.requirement("REL-12")
@rows(("length", "most"), [(3, 0), (4, 1), (9, 1), (10, 2), (40, 2)])
def test_longer_names_may_have_more_slips(length: int, most: int) -> None:
    assert max_edits(length) == most


def test_names_within_reach_come_with_their_distance() -> None:
    found = similar_names("createisue", ["createissue", "createissues", "deleteissue"])

    assert sorted(found) == [("createissue", 1), ("createissues", 2)]


@rows("meant", ["word", "worda", "wor", "wrod", "wird"])
def test_any_one_slip_is_reached(meant: str) -> None:
    assert (meant in single_edits("word")) == (meant != "word")


@given(st.text(alphabet="abcd", min_size=1, max_size=6))
def test_all_are_one_slip_away(word: str) -> None:
    assert {OSA.distance(word, other) for other in single_edits(word)} == {1}
