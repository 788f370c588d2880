"""LangChain: python with_langchain.py [REQUEST [MODEL]]; without a model `Offline` is used."""

import asyncio
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from discovery_engine import open_engine
from discovery_engine.integrations.langchain import DiscoveryMiddleware


class Offline(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:  # calls the tool that is bound last
        ask = [{"name": tools[-1].name, "args": {}, "id": "1"}]
        return RunnableLambda(lambda m: AIMessage(m[-1].text, tool_calls=[] if m[2:] else ask))


async def main(request: str = "what time is it in Tokyo?", model: Any = None) -> None:
    async with open_engine() as engine:
        llm = model or Offline(messages=iter([]))
        agent: Any = create_agent(llm, middleware=[DiscoveryMiddleware(engine)])
        print((await agent.ainvoke({"messages": [("user", request)]}))["messages"][-1].text)


asyncio.run(main(*sys.argv[1:]))
