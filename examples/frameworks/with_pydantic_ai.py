"""PydanticAI: python with_pydantic_ai.py [REQUEST [MODEL]]; without a model `offline` is used."""

import asyncio
import sys

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.models.function import AgentInfo, FunctionModel

from discovery_engine import open_engine
from discovery_engine.integrations.pydantic_ai import DiscoveryToolset, discovery_search_strategy


def offline(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last, found = messages[-1].parts[0], [t.name for t in info.function_tools if "__" in t.name]
    if isinstance(last, ToolReturnPart) and (not found or last.tool_name in found):
        return ModelResponse([TextPart(str(last.content))])
    call = (found[0], {}) if found else ("search_tools", {"queries": sys.argv[1:2] or ["time"]})
    return ModelResponse([ToolCallPart(*call)])


async def main(request: str = "what time is it in Tokyo?", model: str = "") -> None:
    async with open_engine() as engine:
        search = ToolSearch[None](strategy=discovery_search_strategy(engine))
        tools = [DiscoveryToolset[None](engine)]
        agent = Agent(model or FunctionModel(offline), toolsets=tools, capabilities=[search])
        print((await agent.run(request)).output)


asyncio.run(main(*sys.argv[1:]))
