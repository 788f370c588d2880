from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.suggest import Suggestion, name_stems, suggest
from tests.factories import make_entry, make_part
from tests.rows import rows
from tests.unit.evaluation.runs import view_of

WORDS = st.sampled_from(
    [
        "create",
        "issue",
        "read",
        "file",
        "the",
        "a",
        "invoice",
        "customer",
        "pays",
        "slowly",
        "12",
        "é",
        "-",
    ]
)


def of_one(name: str, description: str, *, per_tool: int = 1, **fields: Any) -> Suggestion:
    entry = make_entry(name, "s", description=description, **fields)
    return suggest(view_of(make_part("s", entry)), per_tool=per_tool)


@rows(
    ("name", "description", "draft"),
    [
        pytest.param(
            "create_issue",
            "Create a new issue in a GitHub repository. More.",
            "new in a GitHub repository",
            id="without the words of the name",
        ),
        pytest.param("sum", "Adds up (two) numbers `x`!", "adds up numbers", id="without asides"),
        pytest.param(
            "fetch", "Fetches. Gets a web page as text", "gets a web page as text", id="next one"
        ),
        pytest.param("dns", "DNS lookups of many hosts", "lookups of many hosts", id="acronym"),
        pytest.param("x", "URL of \x1b[31ma page", "URL of a page", id="without escapes"),
    ],
)
def test_a_draft_is_what_the_description_says(name: str, description: str, draft: str) -> None:
    assert [d.query for d in of_one(name, description).drafts] == [draft]


@pytest.mark.requirement("EVA-30")
@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(WORDS, max_size=12))
def test_no_draft_says_a_word_of_the_name(name: list[str], said: list[str]) -> None:
    tool, description = "_".join(name), " ".join(said)

    found = of_one(tool, description, per_tool=3)

    assert found == of_one(tool, description, per_tool=3)
    for draft in found.drafts:
        assert not set(name_stems(tool)) & set(name_stems(draft.query))
