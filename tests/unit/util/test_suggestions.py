"""Names offered in place of one that is not known."""

from __future__ import annotations

import pytest

from discovery_engine._util.suggestions import nearest
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
