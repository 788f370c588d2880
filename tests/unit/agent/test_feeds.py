"""Hints on which result field feeds which argument: only where schemas leave little doubt."""

from __future__ import annotations

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.feeds import feeds
from discovery_engine.agent.render.search import searches_result
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.agent.tool_text import Detail
from discovery_engine.tools.model import Tool
from tests.factories import make_entry, make_part, make_tool
from tests.rows import rows
from tests.unit.server.fakes import make_view, object_schema

pytestmark = pytest.mark.requirement("STP-8")

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def lister(server: str = "github", **fields: JSONObject) -> Tool:
    """A tool that lists issues with these fields."""
    item = {"type": "object", "properties": fields}
    listed = {"type": "object", "properties": {"issues": {"type": "array", "items": item}}}
    return make_tool("list_issues", server, outputSchema=listed)


def taker(server: str = "github", **arguments: JSONObject) -> Tool:
    return make_tool("get_issue", server, inputSchema=object_schema((), **arguments))


@rows(
    ("fields", "arguments", "hint"),
    [
        ({"issue_number": WHOLE}, {"issueNumber": WHOLE}, "same name, integer"),
        ({"number": WHOLE}, {"issue_number": WHOLE}, "number of issue, integer"),
        ({"repository": TEXT}, {"repository": TEXT}, "same name, string"),
        ({"number": WHOLE}, {"number": WHOLE}, ""),
        ({"name": TEXT}, {"name": TEXT}, ""),
        ({"number": WHOLE}, {"issue_number": TEXT}, ""),
        ({"number": WHOLE}, {"pull_number": WHOLE}, ""),
        ({"due_at": {**TEXT, "format": "date"}}, {"due_at": {**TEXT, "format": "uri"}}, ""),
        ({"user_id": {"type": ["string", "null"]}}, {"user_id": TEXT}, ""),
        ({"access_token": TEXT}, {"accessToken": TEXT}, ""),
        ({"user_id": {"type": "object"}}, {"user_id": {"type": "object"}}, ""),
    ],
)
def test_names_types_and_formats_must_agree(
    fields: JSONObject, arguments: JSONObject, hint: str
) -> None:
    found = feeds([lister(**fields), taker(**arguments)])

    assert [one.reason for one in found] == ([hint] if hint else [])


def test_a_single_word_counts_within_one_server_only() -> None:
    fields = {"repository": TEXT}

    assert feeds([lister("github", **fields), taker("github", repository=TEXT)])
    assert not feeds([lister("github", **fields), taker("gitlab", repository=TEXT)])


def test_an_id_of_one_server_is_none_of_another() -> None:
    assert feeds([lister("a", order_id=TEXT), taker("a", order_id=TEXT)])
    assert not feeds([lister("a", order_id=TEXT), taker("b", order_id=TEXT)])
    assert feeds([lister("a", file_path=TEXT), taker("b", file_path=TEXT)])


def test_a_tool_without_an_output_schema_feeds_nothing() -> None:
    assert feeds([make_tool("list_issues"), taker(issue_number=WHOLE)]) == []


def test_several_queries_show_what_feeds_what_within_the_budget() -> None:
    source = lister(number=WHOLE)
    target = taker(issue_number=WHOLE)
    view = make_view(make_part("github", make_entry(source), make_entry(target)))
    answers = [view.search("list_issues"), view.search("get_issue")]

    whole = searches_result(answers, Budget(400), Detail.SIGNATURE)
    short = searches_result(answers, Budget(60), Detail.SIGNATURE)

    line = (
        "Hint: github:list_issues structuredContent.issues[*].number -> "
        "github:get_issue issue_number (number of issue, integer)"
    )
    assert line in whole["content"][0]["text"].split("\n")
    assert "Hint:" not in short["content"][0]["text"]
    assert estimated_tokens(short["content"][0]["text"]) <= 60
    [fields] = whole["_meta"]["discovery/answer"]["feeds"]
    assert fields["argument"] == "issue_number"
