"""Names offered in place of one that is not known."""

from __future__ import annotations

import pytest

from discovery_engine.nearest import nearest

KNOWN = ["create_issue", "list_issues", "get_repository", "delete_repository"]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        pytest.param("craete_issue", "create_issue", id="letters swapped"),
        pytest.param("CREATE-ISSUE", "create_issue", id="other spelling"),
        pytest.param("get_repo", "get_repository", id="shortened"),
    ],
)
def test_the_likest_name_comes_first(word: str, first: str) -> None:
    assert nearest(word, KNOWN)[0] == first


def test_nothing_is_offered_for_a_word_like_no_other() -> None:
    assert nearest("zzz", KNOWN) == []


def test_the_order_of_the_known_names_does_not_matter() -> None:
    assert nearest("issue", KNOWN) == nearest("issue", KNOWN[::-1])


def test_nothing_is_known_among_no_names() -> None:
    assert nearest("create_issue", []) == []
