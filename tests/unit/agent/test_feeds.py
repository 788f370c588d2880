"""Hints on which result field feeds which argument: only where schemas leave little doubt."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.search_rendering import feeds
from discovery_engine.tools.model import Tool
from tests.factories import make_tool
from tests.rows import rows
from tests.unit.server.fakes import object_schema

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


def test_an_id_of_one_server_is_none_of_another() -> None:
    assert feeds([lister("a", order_id=TEXT), taker("a", order_id=TEXT)])
    assert not feeds([lister("a", order_id=TEXT), taker("b", order_id=TEXT)])
    assert feeds([lister("a", file_path=TEXT), taker("b", file_path=TEXT)])
