from __future__ import annotations

import pytest

from discovery_engine.errors import ConfigurationError
from discovery_engine.evaluation.queries import Query, QuerySet, read_queries
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.rows import rows
from tests.unit.evaluation.runs import usual_view

CREATE = ToolKey(ServerName("github"), ToolName("create_issue"))
LIST = ToolKey(ServerName("github"), ToolName("list_issues"))


def read(text: str, *, allow_missing: bool = False) -> QuerySet:
    return read_queries(
        text.encode(), file="q.yaml", view=usual_view(), allow_missing=allow_missing
    )


def problems(text: str) -> list[tuple[int, int, str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    found = caught.value.problems
    return [(p.origin.line, p.origin.column, p.message, p.hint) for p in found]


def test_queries_name_tools_in_any_way_that_finds_them() -> None:
    found = read(
        """
        queries:
          - query: file a bug
            tools: [github:create_issue, github__list_issues, github:create_issue]
          - {query: file a bug, server: GitHub, tools: create_issue, id: of one server}
          - query: order a pizza
            none: true
        """
    )

    assert found.queries == (
        Query("file a bug", "file a bug", (CREATE, LIST)),
        Query("of one server", "file a bug", (CREATE,), ServerName("github")),
        Query("order a pizza", "order a pizza"),
    )


def test_queries_may_be_json() -> None:
    assert read('{"queries": [{"query": "12:30", "none": true}]}').queries[0].text == "12:30"


@pytest.mark.requirement("EVA-4")
def test_the_words_and_the_server_distinguish_queries() -> None:
    found = read("queries: [{query: a, none: true}, {query: a, none: true, server: time}]")

    assert [query.id for query in found.queries] == ["a", "a [time]"]


@pytest.mark.requirement("EVA-4")
def test_the_same_query_twice_is_a_problem_with_both_lines() -> None:
    text = "queries:\n- {query: a, none: true}\n- {query: a, tools: convert_time}"

    assert problems(text) == [
        (3, 3, "a second query 'a'; the first is on line 2", "remove one, or give each an 'id'")
    ]


@pytest.mark.requirement("EVA-1")
@rows(
    ("entry", "message"),
    [
        pytest.param("{query: a}", "has neither `tools` nor `none`", id="neither"),
        pytest.param("{query: a, none: false}", "has neither `tools` nor `none`", id="false"),
        pytest.param("{query: a, tools: []}", "has neither `tools` nor `none`", id="no tool"),
        pytest.param(
            "{query: a, tools: convert_time, none: true}",
            "has both `tools` and `none`",
            id="both",
        ),
        pytest.param("{none: true}", "is missing", id="no words"),
        pytest.param("{query: '', none: true}", "must not be empty", id="empty words"),
    ],
)
def test_an_entry_says_what_is_asked_and_what_is_right(entry: str, message: str) -> None:
    assert [found[2] for found in problems(f"queries: [{entry}]")] == [message]


@pytest.mark.requirement("EVA-2")
@rows(
    ("text", "expected"),
    [
        pytest.param("", "has no query", id="an empty file"),
        pytest.param("queries: []", "has no query", id="no query"),
        pytest.param("a: 1", "unknown key 'a'", id="something else"),
        pytest.param("queries: [", "is not valid YAML", id="no YAML"),
        pytest.param("- query: a", "must be a mapping", id="a bare list"),
    ],
)
def test_a_file_of_another_kind_is_refused(text: str, expected: str) -> None:
    assert problems(text)[0][2].startswith(expected)


@pytest.mark.requirement("EVA-2", "EVA-3")
def test_all_that_is_not_in_the_catalog_is_reported_at_once_with_its_place() -> None:
    text = """\
queries:
  - query: a
    tools: [github:creat_issue, github:delete_repo]
  - query: b
    tools: gitbub:create_issue
  - query: c
    tools: [down:ping]
  - query: d
    server: tyme
    none: true
  - query: e
    server: time
    tools: [github:create_issue]
"""

    found = problems(text)

    assert [place[:2] for place in found] == [(3, 13), (3, 33), (5, 12), (7, 13), (9, 13), (13, 13)]
    assert found[0][3] == "did you mean 'github:create_issue'?"
    assert "is disabled" in found[1][2]
    assert found[2][3] == "did you mean 'github'?"
    assert found[3][2] == "server 'down' could not be listed, so its tools are not known"
    assert found[4][3] == "did you mean 'time'?"
    assert found[5][2] == "server 'time' has no tool 'github:create_issue'"


@pytest.mark.requirement("EVA-2")
def test_a_problem_shows_its_line_and_a_caret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read("queries:\n  - query: a\n    tools: [github:nope]")

    [problem] = caught.value.problems
    assert problem.subject == "queries.0.tools.0"
    assert problem.excerpt == "    tools: [github:nope]\n            ^"


@pytest.mark.requirement("EVA-3")
def test_what_is_missing_can_be_left_out() -> None:
    text = """
        queries:
          - {query: a, tools: [github:nope, github:create_issue]}
          - {query: b, tools: [down:ping, github:delete_repo]}
          - {query: c, server: nowhere, none: true}
          - {query: d, none: true}
    """

    found = read(text, allow_missing=True)

    assert [(query.id, query.tools) for query in found.queries] == [("a", (CREATE,)), ("d", ())]
    assert found.skipped == ("b", "c [nowhere]")


def test_a_mistake_is_never_left_out() -> None:
    with pytest.raises(ConfigurationError):
        read("queries: [{query: a}]", allow_missing=True)
