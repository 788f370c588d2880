"""What of a tool is sent to a language model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine.evaluation.enrichment import tool_messages
from discovery_engine.evaluation.enrichment.tool_messages import ToolMessages
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


@pytest.mark.requirement("ENR-20")
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


@pytest.mark.requirement("ENR-20")
def test_a_secret_where_a_text_is_cut_is_not_sent_in_part() -> None:
    tool = make_tool(description="y" * 1_497 + "s3cret", title="z" * 125 + "s3cret")
    sent = ToolMessages([tool], lambda text: text.replace("s3cret", "*")).message(tool)

    assert "s3" not in sent


@pytest.mark.requirement("ENR-20")
def test_many_tools_cost_each_of_them_little(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> list[str]:
        read.append(text)
        return words(text)

    monkeypatch.setattr(tool_messages, "words", counted)
    tools = [make_tool(f"get_thing_{n}_of_{n % 40}") for n in range(2_000)]
    messages = ToolMessages(tools, lambda text: text)
    for tool in tools[:100]:
        siblings = json.loads(messages.message(tool))["siblings"]
        assert len(siblings) == 25
        assert siblings[0]["name"].endswith(f"_{tool.name.rpartition('_')[2]}")

    assert len(read) <= len(tools) + 100


@pytest.mark.requirement("ENR-20")
def test_every_text_of_a_message_is_redacted() -> None:
    parameter = {"description": "s3cret", "enum": ["s3cret"], "type": "s3cret"}
    schema = {"properties": {"s3cret": parameter}}
    tool = make_tool("s3cret_tool", description="s3cret", title="s3cret", inputSchema=schema)
    sibling = make_tool("s3cret_b", description="s3cret")

    sent = ToolMessages([sibling], lambda text: text.replace("s3cret", "*")).message(tool)

    assert "s3cret" not in sent
