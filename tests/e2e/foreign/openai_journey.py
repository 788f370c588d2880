"""The journey of the OpenAI Agents SDK, which answers no questions."""

from __future__ import annotations

import asyncio
from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from journey import FILLED, PROMPT, PROMPT_ARGUMENTS, SECONDS, TEXT, ForeignClient, Journey


class OpenAIClient(ForeignClient):
    async def called(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(*self.journey.call(tool, **arguments))
        return "".join(block.text for block in result.content)

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self.client.list_resources()).resources]

    async def templates(self) -> list[str]:
        listed = await self.client.list_resource_templates()
        return [one.uri_template for one in listed.resource_templates]

    async def text(self) -> str:
        return (await self.client.read_resource(TEXT)).contents[0].text

    async def filled(self) -> str:
        return (await self.client.read_resource(FILLED)).contents[0].text

    async def prompts(self) -> list[str]:
        return [one.name for one in (await self.client.list_prompts()).prompts]

    async def prompt(self) -> str:
        got = await self.client.get_prompt(PROMPT, PROMPT_ARGUMENTS)
        return got.messages[0].content.text


async def main(journey: Journey) -> None:
    server: Any = MCPServerStreamableHttp if journey.transport == "http" else MCPServerStdio
    async with server(journey.connection, client_session_timeout_seconds=SECONDS) as client:
        await journey.made_by(OpenAIClient(journey, client))


if __name__ == "__main__":
    asyncio.run(main(Journey.given()))
