"""Names offered in place of one that is not known."""

from __future__ import annotations

import pytest

from discovery_engine._util.suggestions import closest, did_you_mean, nearest
from tests.rows import rows

KNOWN = ["create_issue", "list_issues", "get_repository", "delete_repository"]


@rows(
    ("word", "first"),
    [
        pytest.param("craete_issue", "create_issue", id="letters swapped"),
        pytest.param("CREATE-ISSUE", "create_issue", id="other spelling"),
        pytest.param("get_repo", "get_repository", id="shortened"),
        pytest.param("repository_delete", "delete_repository", id="words in another order"),
        pytest.param("listIssues", "list_issues", id="words joined"),
        pytest.param("issues", "list_issues", id="one of its words"),
    ],
)
def test_the_likest_name_comes_first(word: str, first: str) -> None:
    assert nearest(word, KNOWN)[0] == first


@rows(
    ("word", "known"),
    [
        pytest.param("zzz", KNOWN, id="no letter in common"),
        pytest.param("nope", ["trigger-long-running-operation"], id="letters inside a long name"),
        pytest.param("a", ["add", "create_a_tag"], id="too short to say anything"),
        pytest.param("", KNOWN, id="no word"),
    ],
)
def test_nothing_is_offered_for_a_word_like_no_other(word: str, known: list[str]) -> None:
    assert nearest(word, known) == []


def test_what_shares_a_few_letters_is_not_offered_beside_a_slip() -> None:
    assert nearest("gti", ["everything", "filesystem", "git", "time"]) == ["git"]


def test_the_order_of_the_known_names_does_not_matter() -> None:
    assert nearest("issue", KNOWN) == nearest("issue", KNOWN[::-1])


def test_nothing_is_known_among_no_names() -> None:
    assert nearest("create_issue", []) == []


def test_the_closest_of_the_names_is_one_that_is_near_enough() -> None:
    assert closest("serach", ["list", "search"]) == "search"
    assert closest("zebra", ["list", "search"]) is None
    assert closest("readonly", ["readOnlyHint"], least=0.8) is None
    assert closest("readOnly", ["openWorldHint", "readOnlyHint"], least=0.8) == "readOnlyHint"


def test_a_hint_names_the_closest_or_says_what_else_helps() -> None:
    assert did_you_mean("serach", ["search"]) == "did you mean 'search'?"
    assert did_you_mean("zebra", ["search"], otherwise="known is search") == "known is search"
