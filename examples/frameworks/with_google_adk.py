"""Google ADK: python with_google_adk.py [REQUEST]; without `offline` the model itself answers."""

import asyncio
import sys
from typing import Any

from google.adk.agents import Agent
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import ModelContent, Part

from discovery_engine import open_engine
from discovery_engine.integrations.google_adk import DiscoveryToolset


def offline(callback_context: Any, llm_request: Any) -> LlmResponse:  # noqa: ARG001
    result = llm_request.contents[-1].parts[0].function_response
    names = [name for name in llm_request.tools_dict if "__" in name]
    call = Part.from_function_call(name=[*names, "search_tools"][0], args={})
    return LlmResponse(content=ModelContent(str(result.response) if result else call))


async def main(request: str = "what time is it in Tokyo?") -> None:
    async with open_engine() as engine:
        agent = Agent(name="helper", model="gemini-flash-latest", tools=[DiscoveryToolset(engine)])
        agent.before_model_callback = offline
        await InMemoryRunner(agent).run_debug(request)


asyncio.run(main(*sys.argv[1:]))
