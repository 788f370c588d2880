"""What an agent reads with the tool searches of peers, each by its own code; see `agents.py`.

    PYTHON agent_peers.py < asked.json > read.json

PYTHON has `fastmcp` and `pydantic-ai-slim`. The input is `{"tools": [{"name", "description",
"parameters"}], "requests": [[first words, other words]]}`. The output has, for each peer, the
definitions of its first turn, and for each request its searches: the call, the answer, the
definitions that it added to those of the next turn, and the names of the tools whose whole schema
the model has by then read.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

JSON = dict[str, Any]
# Of a model whose provider has no tool search: so the local one is used, on every provider alike.
LOCAL = ModelProfile(supported_native_tools=frozenset())


async def main() -> None:
    asked = json.load(sys.stdin)
    tools, requests = asked["tools"], asked["requests"]
    read = {
        f"FastMCP {version('fastmcp-slim')}, BM25SearchTransform": await fastmcp(tools, requests),
        f"PydanticAI {version('pydantic-ai-slim')}, search_tools": await pydantic_ai(
            tools, requests
        ),
    }
    json.dump(read, sys.stdout)


async def fastmcp(tools: list[JSON], requests: list[list[str]]) -> JSON:
    """The server as its client sees it; its second search has other words, for it has no pages."""
    transforms = [BM25SearchTransform()]
    server = FastMCP("catalog", tools=[Tool(**tool) for tool in tools], transforms=transforms)
    async with Client(server) as client:
        surface = [
            definition(tool.name, tool.description, tool.input_schema)
            for tool in await client.list_tools()
        ]
        found = []
        for words in requests:
            searches = []
            for query in words:
                arguments = {"query": query}
                result = await client.call_tool("search_tools", arguments)
                answer = "\n".join(getattr(part, "text", "") for part in result.content)
                named = (result.structured_content or {}).get("result", [])
                ready = [one["name"] for one in named]
                searches.append(search(arguments, answer, [], ready))
            found.append(searches)
    return {"surface": surface, "requests": found}


async def pydantic_ai(tools: list[JSON], requests: list[list[str]]) -> JSON:
    """An agent whose tools are all deferred; the same search again finds the next ones."""
    definitions = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["parameters"],
            defer_loading=True,
        )
        for tool in tools
    ]
    toolset = ExternalToolset[None](definitions)
    surface: list[JSON] = []
    found = []
    for first, _ in requests:
        script = Searching(first)
        model = FunctionModel(script.answer, profile=LOCAL)
        agent = Agent(model, toolsets=[toolset])
        await agent.run(first)
        surface, searches = script.surface, script.searches
        found.append(searches)
    return {"surface": surface, "requests": found}


class Searching:
    """A model that searches twice, and notes what it is shown."""

    def __init__(self, query: str) -> None:
        self.arguments = {"queries": [query]}
        self.surface: list[JSON] = []
        self.searches: list[JSON] = []
        self._known: set[str] = set()

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        bound = [
            definition(tool.name, tool.description, tool.parameters_json_schema)
            for tool in info.function_tools
            if tool.name not in self._known
        ]
        self._known |= {tool["name"] for tool in bound}
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        returned = [part for part in last.parts if isinstance(part, ToolReturnPart)]
        if returned:
            text, names = returned[0].model_response_str(), [tool["name"] for tool in bound]
            self.searches.append(search(self.arguments, text, bound, names))
        else:
            self.surface = bound
        # Its description says: if no tools are found, do not retry.
        if len(self.searches) == 2 or (returned and not bound):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("search_tools", self.arguments)])


def definition(name: str, description: str | None, parameters: JSON) -> JSON:
    return {"name": name, "description": description or "", "parameters": parameters}


def search(arguments: JSON, answer: str, bound: list[JSON], ready: list[str]) -> JSON:
    return {"arguments": arguments, "answer": answer, "bound": bound, "ready": ready}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main())
