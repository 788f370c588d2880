"""The journey of PydanticAI's tool set."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp.client.transports import StdioTransport
from fastmcp_journey import User
from journey import FILLED, PROMPT, PROMPT_ARGUMENTS, SECONDS, TEXT, ForeignClient, Journey
from pydantic_ai.mcp import MCPToolset


class PydanticAIClient(ForeignClient):
    async def called(self, tool: str, **arguments: Any) -> str:
        name, given = self.journey.call(tool, **arguments)
        return str(await self.client.direct_call_tool(name, given))

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in await self.client.list_resources()]

    async def templates(self) -> list[str]:
        return [one.uri_template for one in await self.client.list_resource_templates()]

    async def text(self) -> str:
        return await self.client.read_resource(TEXT)

    async def filled(self) -> str:
        return await self.client.read_resource(FILLED)

    async def prompts(self) -> list[str]:
        return [one.name for one in await self.client.list_prompts()]

    async def prompt(self) -> str:
        got = await self.client.get_prompt(PROMPT, PROMPT_ARGUMENTS)
        return str(got.messages[0].content)


async def main(journey: Journey) -> None:
    is_remote = journey.transport == "http"
    gateway = journey.connection["url"] if is_remote else StdioTransport(**journey.connection)
    user = User(journey).handlers
    timeouts: Any = {"read_timeout": SECONDS, "init_timeout": SECONDS}
    async with MCPToolset(gateway, log_level="info", **timeouts, **user) as toolset:
        await journey.made_by(PydanticAIClient(journey, toolset))


if __name__ == "__main__":
    asyncio.run(main(Journey.given()))
