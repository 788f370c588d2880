"""Agent Framework: python with_agent_framework.py [REQUEST]; put your client for `Offline`."""

import asyncio
import sys
from typing import Any

import agent_framework as maf

from discovery_engine import open_engine
from discovery_engine.integrations.agent_framework import DiscoveryProvider


class Offline(maf.FunctionInvocationLayer[Any], maf.BaseChatClient[Any]):
    async def _inner_get_response(self, *, messages: Any, options: Any, **_: Any) -> Any:
        last = messages[-1].contents[-1]
        name = next((t.name for t in options["tools"] if "__" in t.name), "search_tools")
        content = maf.Content.from_function_call("1", name, arguments={})
        if last.type == "function_result":
            content = maf.Content.from_text(str(last.result))
        return maf.ChatResponse(messages=[maf.Message("assistant", [content])])


async def main(request: str = "what time is it in Tokyo?") -> None:
    async with open_engine() as engine:
        agent = maf.Agent(Offline(), context_providers=[DiscoveryProvider(engine)])
        print(await agent.run(request))


asyncio.run(main(*sys.argv[1:]))
