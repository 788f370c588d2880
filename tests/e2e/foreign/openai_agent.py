"""What the OpenAI Agents SDK does with the gateway; run by the interpreter that has it.

    python openai_agent.py COMMAND ARGUMENT ...

Prints one JSON object: the tools it was given, and what two of them answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from agents.mcp import MCPServerStdio


async def main(command: str, *arguments: str) -> None:
    program = {"command": command, "args": list(arguments), "env": dict(os.environ)}
    server = MCPServerStdio(
        params=program, cache_tools_list=True, client_session_timeout_seconds=60
    )
    async with server:
        tools = [tool.name for tool in await server.list_tools()]
        found = await server.call_tool("search_tools", {"query": "echo"})
        call = {"tool": "good:echo", "arguments": {"text": "hello"}}
        executed = await server.call_tool("execute_tool", call)
    told = {"tools": tools, "found": text(found), "executed": text(executed)}
    sys.stdout.write(json.dumps(told) + "\n")


def text(result: Any) -> str:
    return "".join(block.text for block in result.content)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
