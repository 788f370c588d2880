"""Long results in front of the SDK's client, which validates them against the output schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.e2e.serving import Home
from tests.e2e.test_serve_questions import CLIENTS, over_stdio

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

SERVER = Path(__file__).parents[1] / "servers" / "results_server.py"


async def called(home: Home, era: str, **section: Any) -> tuple[Any, Any, Any]:
    """The output schema of the tool, and its results: a long one, and a short one."""
    args = ["-W", "ignore", str(SERVER), str(home.folder / "calls.log"), "strict"]
    home.write(
        {"results": {"command": sys.executable, "args": args}},
        server={"mode": "direct", "maxResultTokens": 300, **section},
    )
    with over_stdio(home) as opened, anyio.fail_after(100):
        async with Client(opened(), mode=CLIENTS[era], read_timeout_seconds=60) as client:
            listed = await client.list_tools()
            (tool,) = (one for one in listed.tools if one.name == "results__strict")
            long = await client.call_tool(tool.name, {"count": 500})
            short = await client.call_tool(tool.name, {"count": 4})
    return tool.output_schema, long, short


@pytest.mark.requirement("MOD-11")
async def test_a_client_that_validates_results_takes_one_that_was_cut(home: Home) -> None:
    schema, long, short = await called(home, "modern")

    assert schema["properties"]["items"] == {"type": "array", "items": {"$ref": "#/$defs/row"}}
    assert "required" not in schema
    assert len(long.structured_content.get("items", [])) < 500
    assert "read_result" in long.content[-1].text
    assert len(short.structured_content["items"]) == 4


@pytest.mark.requirement("MOD-11")
async def test_the_plain_form_leaves_long_structured_content_and_the_schema_out(
    home: Home,
) -> None:
    truncate = {"style": "head_tail", "characters": 500}
    schema, long, short = await called(home, "handshake", truncate=truncate)

    assert schema is None
    assert long.structured_content is None
    assert len(short.structured_content["items"]) == 4
