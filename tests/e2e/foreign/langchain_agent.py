"""What an agent on LangChain does with the gateway; run by the adapter's own interpreter.

    python langchain_agent.py COMMAND ARGUMENT ...

Prints one JSON object: the tools it was given, and what two of them answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


async def main(command: str, *arguments: str) -> None:
    gateway = {
        "transport": "stdio",
        "command": command,
        "args": list(arguments),
        "env": dict(os.environ),
    }
    client = MultiServerMCPClient({"discovery": gateway})
    async with client.session("discovery") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        found = await tools["search_tools"].ainvoke({"query": "echo"})
        call = {"tool": "good:echo", "arguments": {"text": "hello"}}
        executed = await tools["execute_tool"].ainvoke(call)
    told = {"tools": list(tools), "found": text(found), "executed": text(executed)}
    sys.stdout.write(json.dumps(told) + "\n")


def text(answer: Any) -> str:
    return answer if isinstance(answer, str) else "".join(block["text"] for block in answer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
