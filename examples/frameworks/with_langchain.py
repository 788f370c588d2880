"""LangChain: python with_langchain.py REQUEST [MODEL]; without a model `Offline` stands in."""

import asyncio
import sys
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from discovery_engine import open_engine
from discovery_engine.integrations.langchain import DiscoveryMiddleware


class Offline(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:  # calls the first tool that is bound
        call = {"name": tools[-1].name, "args": {}, "id": "1", "type": "tool_call"}
        return self.model_copy(update={"messages": iter([AIMessage("", tool_calls=[call])])})


async def main(request: str, model: str = "") -> None:
    async with open_engine() as engine:
        llm = init_chat_model(model) if model else Offline(messages=iter([]))
        agent: Any = create_agent(llm, middleware=[DiscoveryMiddleware(engine)])
        async for step in agent.astream({"messages": [("user", request)]}, stream_mode="updates"):
            print(step)


asyncio.run(main(*sys.argv[1:]))
