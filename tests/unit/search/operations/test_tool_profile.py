"""What a tool does is read from its definition."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.operation import (
    ArgumentKind,
    Operation,
    ToolProfile,
    read_tool,
)
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_tool
from tests.rows import rows


def read(name: str, description: str = "", **fields: Any) -> ToolProfile:
    return read_tool(make_tool(name, description=description, **fields), default_lexicon().stem)


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@rows(
    ("name", "operation"),
    [
        ("create_issue", Operation.CREATE),
        ("hubspot-create-engagement", Operation.CREATE),
        ("kubectl_get", Operation.READ),
        ("listBuckets", Operation.LIST),
        ("cron_list", Operation.LIST),
        ("web_search", Operation.SEARCH),
        ("delete-branch", Operation.DELETE),
        ("removeMember", Operation.DELETE),
        ("workspace_count", Operation.COUNT),
        ("export_citations", Operation.DOWNLOAD),
        ("send_message", Operation.SEND),
        ("archive_list", Operation.STOP),
        ("reopen_issue", Operation.OPEN),
    ],
)
def test_a_name_says_what_a_tool_does(name: str, operation: Operation) -> None:
    assert read(name).operations & operation


def test_a_tool_is_for_many_or_for_one() -> None:
    one = read("get_issue", inputSchema=schema("issueId", issueId={"type": "string"}))
    many = read("get_issues", inputSchema=schema("project_id", project_id={"type": "string"}))

    assert (one.is_for_one, one.is_for_many) == (True, False)
    assert (many.is_for_one, many.is_for_many) == (False, True)
    assert read("list_issue").is_for_many
    assert not read("get_status").is_for_many


@rows(
    ("parameter", "given", "kind"),
    [
        ("url", {"type": "string"}, ArgumentKind.URL),
        ("target", {"type": "string", "format": "uri"}, ArgumentKind.URL),
        ("file_path", {"type": "string"}, ArgumentKind.PATH),
        ("recipients", {"type": "array"}, ArgumentKind.EMAIL),
        ("startDate", {"type": "string"}, ArgumentKind.DATE),
        ("when", {"type": "string", "format": "date-time"}, ArgumentKind.DATE),
        ("limit", {"type": "integer"}, ArgumentKind.NUMBER),
        ("issue_key", {"type": "string"}, ArgumentKind.IDENTIFIER),
        ("repo", {"type": "string"}, ArgumentKind.REPOSITORY),
        ("channel", {"type": "string"}, ArgumentKind.CHANNEL),
        ("lat", {"type": "number"}, ArgumentKind.COORDINATES),
    ],
)
def test_a_tool_takes_the_kinds_of_its_parameters(
    parameter: str, given: dict[str, Any], kind: ArgumentKind
) -> None:
    assert read("do", inputSchema=schema(**{parameter: given})).takes & kind


@given(
    st.builds(
        ToolProfile,
        operations=st.integers(0, 2**16 - 1),
        takes=st.integers(0, 2**12 - 1),
        is_for_many=st.booleans(),
        is_for_one=st.booleans(),
    )
)
def test_a_profile_survives_being_packed_in_32_bits(profile: ToolProfile) -> None:
    packed = profile.packed()

    assert packed < 2**32 or profile.is_elsewhere  # an index has none such
    assert ToolProfile.unpacked(packed) == profile
