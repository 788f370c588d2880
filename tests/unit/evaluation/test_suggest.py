from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.suggest import Suggestion, suggest
from discovery_engine.evaluation.vocabulary import name_stems
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


def test_more_drafts_come_from_later_sentences_and_from_parameters() -> None:
    schema = {"properties": {"to": {"description": "Address of the recipient"}}}

    found = of_one("send", "Deliver a letter. Keep a copy of it.", per_tool=3, inputSchema=schema)

    assert [draft.query for draft in found.drafts] == [
        "deliver a letter",
        "keep a copy",
        "address of the recipient",
    ]


@pytest.mark.requirement("EVA-31")
def test_a_tool_that_says_too_little_gets_no_draft() -> None:
    found = of_one("create_issue", "Creates the issue.")

    assert found.drafts == ()
    assert list(map(str, found.silent)) == ["s:create_issue"]


def test_tools_that_say_the_same_share_a_draft() -> None:
    one = make_part("a", make_entry("x", "a", description="Weigh ripe apples."))
    other = make_part("b", make_entry("y", "b", description="Weigh ripe apples"))

    [draft] = suggest(view_of(one, other)).drafts

    assert draft.to_json() == {"query": "weigh ripe apples", "tools": ["a:x", "b:y"]}


def test_a_tool_that_no_agent_may_see_is_not_asked_for() -> None:
    entry = make_entry("x", "s", description="Weigh ripe apples.", enabled=False)

    assert suggest(view_of(make_part("s", entry))) == Suggestion((), ())


@pytest.mark.requirement("EVA-30")
@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(WORDS, max_size=12))
def test_no_draft_says_a_word_of_the_name(name: list[str], said: list[str]) -> None:
    tool, description = "_".join(name), " ".join(said)

    found = of_one(tool, description, per_tool=3)

    assert found == of_one(tool, description, per_tool=3)
    for draft in found.drafts:
        assert not set(name_stems(tool)) & set(name_stems(draft.query))
