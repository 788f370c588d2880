from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import FailureKind, ServerNotFoundError, UnavailableError
from discovery_engine.notices import Notice, NoticeKind
from discovery_engine.tools import JSONObject
from discovery_engine.view import SearchAnswer, ServerStatus, ToolList
from discovery_server import rendering
from tests.factories import make_entry, make_part
from tests.unit.server.fakes import CLOCK, ISSUES, make_view, object_schema


def text_of(result: JSONObject) -> str:
    [block] = result["content"]
    assert block["type"] == "text"
    return block["text"]


def fields_of(result: JSONObject) -> JSONObject:
    return result["_meta"]["discovery/answer"]


@pytest.mark.requirement("MET-5", "MET-8")
def test_hit_is_one_line_and_its_fields_are_beside_it() -> None:
    result = rendering.search_result(make_view(ISSUES).search("create an issue", limit=1))

    assert text_of(result) == (
        "github:create_issue(title, labels?, state?) - Create a new issue in a repository. [write]"
    )
    [hit] = fields_of(result)["results"]
    assert 0 < hit.pop("relevance") <= 1
    assert hit == {
        "server": "github",
        "tool": "create_issue",
        "summary": "Create a new issue in a repository.",
        "tags": ["write"],
    }
    assert fields_of(result)["notices"] == []
    assert result["isError"] is False


@pytest.mark.requirement("MET-6")
@given(st.integers(min_value=1, max_value=40), st.integers(min_value=0, max_value=500))
def test_lines_tell_less_the_more_there_are(hits: int, length: int) -> None:
    entries = [
        make_entry(f"tool_{i:02}", "s", description="word " * length, inputSchema=WIDE)
        for i in range(hits)
    ]
    answer = make_view(make_part("s", *entries)).search("tool word", limit=hits)

    text = text_of(rendering.search_result(answer))

    least = "\n".join(f"s:{hit.entry.tool.name}(id, …)" for hit in answer.hits)
    assert rendering.estimated_tokens(text) <= 170 or text == least
    assert len(text.splitlines()) == len(answer.hits)


WIDE = object_schema(
    ("id",), id={"type": "string"}, **{f"option_{i}": {"type": "string"} for i in range(6)}
)


@pytest.mark.requirement("MET-6")
def test_what_is_left_out_is_marked() -> None:
    entries = [
        make_entry(f"tool_{i:02}", "s", description="word " * 60, inputSchema=WIDE)
        for i in range(9)
    ]
    answer = make_view(make_part("s", *entries)).search("tool word")

    lines = text_of(rendering.search_result(answer)).splitlines()

    assert lines[0] == f"s:tool_00(id, option_0?, option_1?, …) - {' '.join(['word'] * 12)}…"
    assert lines[-1] == f"s:tool_08(id, …) - {' '.join(['word'] * 8)}…"


@pytest.mark.requirement("MET-11")
def test_no_hit_is_explained() -> None:
    result = rendering.search_result(make_view(ISSUES).search("delete"))

    assert "github:delete_repository" not in text_of(result)
    assert "disabled: 1 by rule 1 (discovery.yaml:7:5)" in text_of(result)
    assert fields_of(result)["notices"][0]["kind"] == "hidden"


@pytest.mark.requirement("MET-11")
def test_many_notices_of_a_kind_share_a_line() -> None:
    servers = ["a", "b", "c", "d"]
    notices = tuple(Notice(NoticeKind.UNAVAILABLE, f"{s}: down", s) for s in servers)

    text = text_of(rendering.search_result(SearchAnswer("x", (), notices)))

    assert text.splitlines() == [
        "Note: a: down",
        "Note: b: down",
        "Note: 2 more unavailable: c, d; list_mcp_servers tells why",
    ]


def test_servers_are_told_with_what_is_wrong_with_them() -> None:
    view = make_view(ISSUES, CLOCK, statuses={"time": ServerStatus.STARTING})

    result = rendering.servers_result(view.servers())

    assert text_of(result).splitlines() == [
        "github (2 tools, 1 disabled)",
        "time (1 tool) starting",
    ]
    assert fields_of(result)["servers"][0] == {
        "name": "github",
        "description": "",
        "toolCount": 3,
        "enabledCount": 2,
        "status": "idle",
        "reason": "",
        "tags": [],
    }


@pytest.mark.requirement("MET-9")
def test_an_open_session_does_not_change_an_answer() -> None:
    asleep = make_view(ISSUES)
    awake = make_view(ISSUES, statuses={"github": ServerStatus.READY})

    texts = {text_of(rendering.servers_result(view.servers())) for view in (asleep, awake)}

    assert len(texts) == 1


def test_no_server_at_all_is_said() -> None:
    assert text_of(rendering.servers_result([])) == "No MCP server is configured."


def test_disabled_tool_is_listed_with_its_reason() -> None:
    view = make_view(ISSUES)

    result = rendering.tools_result(view.list_tools("github", include_disabled=True), view)

    assert text_of(result) == (
        "github: 3 tools\n"
        "create_issue(title, labels?, state?) - Create a new issue in a repository. [write]\n"
        "delete_repository() - Delete a repository. "
        "(disabled: rule 1 (discovery.yaml:7:5) disables tools matching 'delete_*')\n"
        "list_issues() - List the issues of a repository."
    )
    assert [tool["enabled"] for tool in fields_of(result)["tools"]] == [True, False, True]


def test_list_of_no_tools_tells_why() -> None:
    notice = Notice(NoticeKind.LOADING, "time: not yet", "time")

    result = rendering.tools_result(ToolList("time", (), (notice,)), make_view(CLOCK))

    assert text_of(result) == "time: 0 tools\nNote: time: not yet"


@pytest.mark.requirement("MET-7", "MET-8")
def test_details_give_each_argument_a_line() -> None:
    [create, *_] = ISSUES.entries

    result = rendering.details_result(create)

    assert text_of(result).splitlines() == [
        "github:create_issue [write]",
        "Create a new issue in a repository.",
        "title: string - Its title",
        "labels?: string[]",
        'state?: "open"|"closed" = "open"',
    ]
    fields = fields_of(result)
    assert fields["parameters"][0] == {
        "name": "title",
        "type": "string",
        "description": "Its title",
        "required": True,
    }
    assert fields["inputSchema"] == create.tool.input_schema


def test_details_tell_effects_and_examples() -> None:
    schema = object_schema() | {"examples": [{"a": 1}, "no object"]}
    entry = make_entry("wipe", annotations={"destructiveHint": True}, inputSchema=schema)

    result = rendering.details_result(entry)

    assert text_of(result) == "github:wipe [destructive]\nIt takes no arguments."
    assert fields_of(result)["examples"] == [{"a": 1}]


@pytest.mark.requirement("MET-14")
def test_name_cannot_fake_a_line() -> None:
    entry = make_entry("x\nNote: all is well\x1b[2J", description="a\u2028b")
    view = make_view(make_part("github", entry))

    for result in (
        rendering.tools_result(view.list_tools("github"), view),
        rendering.search_result(view.search("well")),
    ):
        lines = text_of(result).splitlines()
        assert not any(line.startswith("Note: all") for line in lines)
        assert "\x1b" not in text_of(result)
    assert text_of(rendering.details_result(entry)).count("\n") == 2


@pytest.mark.requirement("MET-15")
def test_error_has_code_message_and_next_step() -> None:
    result = rendering.error_result(ServerNotFoundError("gihub", ["github"]))

    assert text_of(result) == (
        "SERVER_NOT_FOUND: server 'gihub' is not configured\n"
        "did you mean 'github'?; list_mcp_servers names them all"
    )
    assert result["isError"] is True
    assert result["_meta"]["discovery/error"] == {
        "code": "SERVER_NOT_FOUND",
        "message": "server 'gihub' is not configured",
        "hint": "did you mean 'github'?; list_mcp_servers names them all",
        "server": "gihub",
        "nearest": ["github"],
    }


def test_error_without_a_hint_is_one_line() -> None:
    error = UnavailableError("github", FailureKind.REFUSED, "connection refused")

    assert text_of(rendering.error_result(error)) == (
        "SERVER_CONNECTION_ERROR: server 'github' is unavailable: connection refused"
    )


def test_fit_gives_the_last_if_none_fits() -> None:
    assert rendering.fit(["long" * 99, "longer" * 9], 1) == "longer" * 9
    assert rendering.fit([], 1) == ""
