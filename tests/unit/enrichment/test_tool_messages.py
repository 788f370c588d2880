"""What of a tool is sent to a language model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine.enrichment import tool_messages
from discovery_engine.enrichment.tool_messages import ToolMessages, system_message
from discovery_engine.search.text.tokenizer import words
from discovery_engine.tools.model import AppliedOverride, Tool, ToolName
from tests.factories import make_tool

SCHEMA = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string", "description": "Of the issue"},
        "state": {"type": "string", "enum": ["open", "closed", 3]},
        "owner": {"type": "string"},
    },
}
TOOL = make_tool("create_issue", "our-tracker", description="Opens one.", inputSchema=SCHEMA)


def message(tool: Tool, *siblings: Tool) -> dict[str, Any]:
    messages = ToolMessages(siblings, lambda text: text)
    sent: dict[str, Any] = json.loads(messages.message(tool))
    return sent


@pytest.mark.requirement("ENR-21")
def test_a_message_has_what_the_server_lists_and_nothing_of_the_owner() -> None:
    own = AppliedOverride(
        name=ToolName("report_to_jane"),
        description="Goes to Jane.",
        examples=("tell Jane",),
        pinned={"owner": 0},
        by=(0,),
    )

    sent = message(replace(TOOL, overridden=own), TOOL, make_tool("close_issue", "our-tracker"))

    assert sent == {
        "tool": {
            "name": "create_issue",
            "description": "Opens one.",
            "parameters": [
                {"name": "title", "type": "string", "description": "Of the issue"},
                {"name": "state", "type": "string", "values": ["open", "closed"]},
            ],
        },
        "siblings": [{"name": "close_issue", "description": ""}],
    }


@pytest.mark.requirement("ENR-21")
def test_the_siblings_that_are_most_alike_are_named_first_and_not_all() -> None:
    others = [make_tool(f"list_thing_{n}", "our-tracker") for n in range(99)]
    near = make_tool("update_issue", "our-tracker")

    names = [one["name"] for one in message(TOOL, *others, near)["siblings"]]

    assert names[0] == "update_issue"
    assert len(names) == 25


@pytest.mark.requirement("ENR-21")
def test_long_definitions_are_cut() -> None:
    properties = {f"p{n:03}": {"type": "string", "description": "x" * 9_000} for n in range(200)}
    long = make_tool(description="y" * 90_000, inputSchema={"properties": properties})

    assert len(json.dumps(message(long))) < 10_000


@pytest.mark.requirement("ENR-21")
def test_every_text_of_a_definition_is_cut() -> None:
    x = "x" * 9_000
    parameter = {"type": x, "description": x, "enum": [x] * 50}
    schema = {"properties": {x + str(n): parameter for n in range(50)}}
    long = make_tool(x, title=x, description=x, inputSchema=schema)
    siblings = [make_tool(f"{x}{n}", description=x) for n in range(50)]

    def longest(value: Any) -> int:
        if isinstance(value, str):
            return len(value)
        parts = value.values() if isinstance(value, dict) else value
        return max(map(longest, parts), default=0)

    sent = message(long, *siblings)

    assert longest(sent) <= 1_500
    assert longest(sent["siblings"]) <= 160
    assert longest(sent["tool"]["title"]) <= 160


@pytest.mark.requirement("ENR-21")
def test_a_secret_where_a_text_is_cut_is_not_sent_in_part() -> None:
    tool = make_tool(description="y" * 1_497 + "s3cret", title="z" * 125 + "s3cret")
    sent = ToolMessages([tool], lambda text: text.replace("s3cret", "*")).message(tool)

    assert "s3" not in sent


@pytest.mark.requirement("ENR-21")
def test_many_tools_cost_each_of_them_little(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> list[str]:
        read.append(text)
        return words(text)

    monkeypatch.setattr(tool_messages, "words", counted)
    tools = [make_tool(f"get_thing_{n}_of_{n % 40}") for n in range(2_000)]
    messages = ToolMessages(tools, lambda text: text)
    for tool in tools[:100]:
        assert len(json.loads(messages.message(tool))["siblings"]) == 25

    assert len(read) <= len(tools) + 100


@pytest.mark.requirement("ENR-21")
def test_every_text_of_a_message_is_redacted() -> None:
    parameter = {"description": "s3cret", "enum": ["s3cret"], "type": "s3cret"}
    schema = {"properties": {"s3cret": parameter}}
    tool = make_tool("s3cret_tool", description="s3cret", title="s3cret", inputSchema=schema)
    sibling = make_tool("s3cret_b", description="s3cret")

    sent = ToolMessages([sibling], lambda text: text.replace("s3cret", "*")).message(tool)

    assert "s3cret" not in sent


def test_instructions_name_the_languages_that_are_asked_for() -> None:
    assert "languages, by their codes: de, pt-BR." in system_message(["de", "pt-BR"])
    assert "languages" not in system_message([])
