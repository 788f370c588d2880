"""A client of version 1 of the SDK, which refuses a whole list for one member that is not valid.

    python strict_sdk1.py SERVER COMMAND ARGUMENT ...

Prints what `strict_client.mjs` prints.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import PromptReference
from pydantic import ValidationError


async def main(server: str, command: str, *arguments: str) -> None:
    gateway = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    refused: dict[str, str] = {}

    async def tried(what: str, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except ValidationError as error:
            refused[what] = str(error)[:500]
            return None

    async with (
        stdio_client(gateway, errlog=sys.stderr) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = await tried("tools/list", session.list_tools())
        resources = await tried("resources/list", session.list_resources())
        await tried("resources/templates/list", session.list_resource_templates())
        prompts = await tried("prompts/list", session.list_prompts())
        failed = []
        for tool in tools.tools if tools else ():
            if tool.name.startswith(f"{server}__"):
                result = await tried(tool.name, session.call_tool(tool.name, {}))
                failed += [tool.name] if result and result.isError else []
        for one in resources.resources if resources else ():
            await tried(str(one.uri), session.read_resource(one.uri))
        prompt = await tried("prompts/get", session.get_prompt("p", {}))
        argument = {"name": "a", "value": ""}
        reference = PromptReference(type="ref/prompt", name="p")
        await tried("completion", session.complete(reference, argument))
    seen = {
        "tools": len(tools.tools) if tools else 0,
        "resources": len(resources.resources) if resources else 0,
        "prompts": len(prompts.prompts) if prompts else 0,
        "messages": len(prompt.messages) if prompt else 0,
    }
    sys.stdout.write(json.dumps({"refused": refused, "failed": failed, **seen}) + "\n")


asyncio.run(main(*sys.argv[1:]))
