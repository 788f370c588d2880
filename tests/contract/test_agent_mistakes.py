"""What models write for the arguments of meta-tools: understood, or answered with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_server.gateway import Gateway
from tests.catalogs import JSONObject
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server.sdk_client import connected

pytestmark = pytest.mark.anyio

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CLOSED = {**NUMBER, "additionalProperties": False}
INPUT = {
    "type": "object",
    "properties": {"input": {"type": "object"}, "n": {"type": "integer"}},
    "required": ["input"],
}
N: JSONObject = {"n": 1}
CALLS: dict[str, tuple[str, JSONObject, str]] = {
    **{
        word: ("execute_tool", {"tool": "need", word: N}, "need")
        for word in ("args", "params", "parameters", "input", "tool_input", "toolArgs", "kwargs")
    },
    "as text": ("execute_tool", {"tool": "need", "args": '{"n": 1}'}, "need"),
    "own input": ("execute_tool", {"tool": "own", "input": N}, "own"),
    "names": ("execute_tool", {"serverName": "told", "tool_name": "need", "params": N}, "need"),
    "name": ("execute_tool", {"server_name": "told", "name": "need", "arguments": N}, "need"),
    "function": ("execute_tool", {"function": "told:need", "arguments": N}, "need"),
    "whole": ("execute_tool", {"input": {"tool": "need", "params": N}}, "need"),
    "one level": ("execute_tool", {"tool": "need", "arguments": {"params": N}}, "need"),
    "same word": ("execute_tool", {"tool": "need", "arguments": {"arguments": N}}, "need"),
    "two words": ("execute_tool", {"tool": "need", "params": {"input": N}}, "need"),
    "described": ("get_tool_details", {"name": "need"}, "told:need"),
    "listed": ("list_tools", {"name": "Told"}, "told: 2 tools"),
    "searched": ("search_tools", {"q": "need"}, "told:need"),
    "wrapped search": ("search_tools", {"params": {"query": "need"}}, "told:need"),
    "inner search": (
        "execute_tool",
        {"tool": "search_tools", "arguments": {"query": "need"}},
        "told:need",
    ),
    "inner list": ("execute_tool", {"tool": "mcp__discovery__list_mcp_servers"}, "told (2 tools)"),
    "inner call": (
        "execute_tool",
        {"tool": "execute_tool", "arguments": {"tool": "need", "arguments": N}},
        "need",
    ),
    "steps": (
        "execute_steps",
        {"steps": [{"id": "a", "name": "need", "params": N}]},
        '{"a":{"status":"ok"',
    ),
    # Not understood: what to write instead.
    "no object": ("execute_tool", {"tool": "need", "args": [1]}, "use `arguments`, an object"),
    "too high": (
        "execute_tool",
        {"tool": "need", "n": 1},
        "'n' is not an argument of execute_tool;",
    ),
    "name too high": (
        "execute_tool",
        {"tool": "need", "name": "x", "arguments": N},
        "'name' is not an argument of execute_tool; put it into `arguments`",
    ),
    "twice": ("execute_tool", {"tool": "need", "arguments": N, "args": N}, "'args' is not an arg"),
    "slip": ("execute_tool", {"tol": "need", "arguments": N}, "did you mean 'tool'?"),
    "wrong inside": (
        "execute_tool",
        {"tool": "need", "arguments": {"params": {"m": 1}}},
        "they belong directly into the arguments, not under params",
    ),
    "no tool": ("execute_tool", {"server": "told", "args": N}, "tool is required"),
}


@pytest.mark.requirement("MET-13")
async def test_what_models_write_is_understood_or_answered_with_what_to_write(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    told = Told.beside(
        tmp_path,
        make_definition("need", "Need a number.", inputSchema=CLOSED),
        make_definition("own", inputSchema=INPUT),
    )
    folder.write(told.server(), server={"steps": True})
    wrong = []

    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            for name, (tool, arguments, expected) in CALLS.items():
                result = await client.call_tool(tool, arguments)
                text = "\n".join(block.text for block in result.content)
                is_call = expected in ("need", "own")
                if text != expected if is_call else expected not in text:
                    wrong.append(f"{name}: {text[:200]!r}")
            sent = told.called_with

    assert wrong == []
    assert sent.count({"input": {"n": 1}}) == 1
    assert sent.count({"n": 1}) == len(sent) - 1
