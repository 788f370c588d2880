"""What FastMCP's client does with the gateway; run by the interpreter that has it.

    python fastmcp_client.py COMMAND ARGUMENT ...

Prints one JSON object: the tools it was given, and what two of them answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(command: str, *arguments: str) -> None:
    transport = StdioTransport(command, list(arguments), env=dict(os.environ))
    async with Client(transport) as client:
        tools = [tool.name for tool in await client.list_tools()]
        found = await client.call_tool("search_tools", {"query": "echo"})
        call = {"tool": "good:echo", "arguments": {"text": "hello"}}
        executed = await client.call_tool("execute_tool", call)
    told = {"tools": tools, "found": text(found), "executed": text(executed)}
    sys.stdout.write(json.dumps(told) + "\n")


def text(result: Any) -> str:
    return "".join(block.text for block in result.content)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
