"""LlamaIndex: python with_llama_index.py [REQUEST]; put your LLM for the mock."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from discovery_engine import open_engine
from discovery_engine.integrations.llama_index import ToolRetriever


def offline(messages: Sequence[ChatMessage], **asked: Any) -> ChatMessage:
    names = [tool.metadata.name for tool in asked["tools"] if "__" in tool.metadata.name]
    call = ToolCallBlock(tool_name=[*names, "search_tools"][0])
    return ChatMessage(messages[-1].content if messages[-1].role == "tool" else [call])


async def main(request: str = "what time is it in Tokyo?") -> None:
    llm = MockFunctionCallingLLM(response_generator=offline)
    async with open_engine() as engine:
        agent = FunctionAgent(tool_retriever=ToolRetriever(engine), llm=llm)
        print(await agent.run(request))


asyncio.run(main(*sys.argv[1:]))
