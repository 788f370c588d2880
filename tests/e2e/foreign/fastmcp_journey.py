"""The journey of FastMCP's client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from journey import (
    ANSWER,
    FILLED,
    PROMPT,
    PROMPT_ARGUMENTS,
    ROOT,
    SAMPLED,
    SECONDS,
    TEXT,
    ForeignClient,
    Journey,
)
from mcp_types import PromptReference


class FastMCPClient(ForeignClient):
    async def called(self, tool: str, **arguments: Any) -> str:
        name, given = self.journey.call(tool, **arguments)
        result = await self.client.call_tool(name, given)
        return "".join(block.text for block in result.content)

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in await self.client.list_resources()]

    async def templates(self) -> list[str]:
        return [one.uri_template for one in await self.client.list_resource_templates()]

    async def text(self) -> str:
        return (await self.client.read_resource(TEXT))[0].text

    async def filled(self) -> str:
        return (await self.client.read_resource(FILLED))[0].text

    async def prompts(self) -> list[str]:
        return [one.name for one in await self.client.list_prompts()]

    async def prompt(self) -> str:
        got = await self.client.get_prompt(PROMPT, PROMPT_ARGUMENTS)
        return got.messages[0].content.text

    async def completed(self) -> list[str]:
        reference = PromptReference(type="ref/prompt", name=PROMPT)
        return (await self.client.complete(reference, {"name": "arg1", "value": "par"})).values

    async def cancelled(self) -> str:
        name, given = self.journey.call("test_wait")
        with suppress(Exception):  # that of its timeout
            await self.client.call_tool(name, given, timeout=2)
        return await self.called("test_waited")


class User:
    """The handlers of FastMCP; those of PydanticAI are the same."""

    def __init__(self, journey: Journey) -> None:
        self.journey = journey

    @property
    def handlers(self) -> dict[str, Any]:
        return {
            "roots": [ROOT],
            "sampling_handler": self.sample,
            "elicitation_handler": self.elicit,
            "log_handler": self.log,
            "progress_handler": self.report,
        }

    async def elicit(self, message: str, kind: Any, params: Any, ctx: Any) -> Any:
        self.journey.asked.append(message)
        return ANSWER if getattr(params, "url", None) is None else {}

    async def sample(self, messages: Any, params: Any, ctx: Any) -> str:
        self.journey.asked.append(messages[0].content.text)
        return SAMPLED

    async def log(self, message: Any) -> None:
        self.journey.logged.append(message.data)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.journey.progress.append(progress)


async def main(journey: Journey) -> None:
    transport: Any = StreamableHttpTransport if journey.transport == "http" else StdioTransport
    opened = transport(**journey.connection)
    async with Client(opened, timeout=SECONDS, **User(journey).handlers) as client:
        await journey.made_by(FastMCPClient(journey, client))


if __name__ == "__main__":
    asyncio.run(main(Journey.given()))
