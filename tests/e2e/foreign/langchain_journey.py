"""The journey of LangChain's adapter, whose client is version 1 of the SDK."""

from __future__ import annotations

import asyncio
from typing import Any

from journey import (
    ANSWER,
    FILLED,
    PROMPT,
    PROMPT_ARGUMENTS,
    ROOT,
    SAMPLED,
    TEXT,
    WATCHED,
    ForeignClient,
    Journey,
)
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import types


class LangChainClient(ForeignClient):
    def __init__(self, journey: Journey, session: Any, user: User) -> None:
        super().__init__(journey, session)
        self.user = user
        self.tools: dict[str, Any] = {}

    async def called(self, tool: str, **arguments: Any) -> str:
        if not self.tools:
            callbacks = self.user.callbacks
            loaded = await load_mcp_tools(self.client, callbacks=callbacks, server_name="gateway")
            self.tools = {one.name: one for one in loaded}
        name, given = self.journey.call(tool, **arguments)
        answer = await self.tools[name].ainvoke(given)
        return answer if isinstance(answer, str) else "".join(one["text"] for one in answer)

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self.client.list_resources()).resources]

    async def templates(self) -> list[str]:
        listed = await self.client.list_resource_templates()
        return [one.uriTemplate for one in listed.resourceTemplates]

    async def text(self) -> str:
        return (await load_mcp_resources(self.client, uris=TEXT))[0].as_string()

    async def filled(self) -> str:
        return (await load_mcp_resources(self.client, uris=FILLED))[0].as_string()

    async def prompts(self) -> list[str]:
        return [one.name for one in (await self.client.list_prompts()).prompts]

    async def prompt(self) -> str:
        [message] = await load_mcp_prompt(self.client, PROMPT, arguments=PROMPT_ARGUMENTS)
        return str(message.content)

    async def completed(self) -> list[str]:
        reference = types.PromptReference(type="ref/prompt", name=PROMPT)
        found = await self.client.complete(reference, {"name": "arg1", "value": "par"})
        return found.completion.values

    async def log(self) -> str:
        await self.client.set_logging_level("info")
        return await super().log()

    async def watched(self) -> str:
        await self.client.subscribe_resource(WATCHED)
        await self.called("test_change_lists")
        await asyncio.wait_for(self.user.updated.wait(), 20)
        return "updated"


class User:
    def __init__(self, journey: Journey) -> None:
        self.journey = journey
        self.updated = asyncio.Event()

    @property
    def callbacks(self) -> Callbacks:
        return Callbacks(
            on_elicitation=self.elicit, on_logging_message=self.log, on_progress=self.report
        )

    @property
    def of_session(self) -> dict[str, Any]:
        """Those for which the adapter has no name of its own."""
        return {
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "message_handler": self.notice,
        }

    async def elicit(self, ctx: Any, params: Any, context: Any) -> types.ElicitResult:
        self.journey.asked.append(params.message)
        content = ANSWER if params.mode == "form" else None
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, ctx: Any, params: Any) -> types.CreateMessageResult:
        self.journey.asked.append(params.messages[0].content.text)
        text = types.TextContent(type="text", text=SAMPLED)
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, ctx: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=ROOT)])

    async def log(self, params: Any, context: Any) -> None:
        self.journey.logged.append(params.data)

    async def report(self, progress: float, total: Any, message: Any, context: Any) -> None:
        self.journey.progress.append(progress)

    async def notice(self, message: Any) -> None:
        if isinstance(getattr(message, "root", None), types.ResourceUpdatedNotification):
            self.updated.set()


async def main(journey: Journey) -> None:
    user = User(journey)
    transport = "streamable_http" if journey.transport == "http" else "stdio"
    gateway: Any = {**journey.connection, "transport": transport, "session_kwargs": user.of_session}
    client = MultiServerMCPClient({"gateway": gateway}, callbacks=user.callbacks)
    async with client.session("gateway") as session:
        await journey.made_by(LangChainClient(journey, session, user))


if __name__ == "__main__":
    asyncio.run(main(Journey.given()))
