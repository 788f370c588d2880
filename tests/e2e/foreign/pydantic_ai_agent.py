"""What an agent on PydanticAI does with the gateway; run by the interpreter that has it.

    python pydantic_ai_agent.py COMMAND ARGUMENT ...

The model is a function that calls two tools. Prints one JSON object: the tools that the model was
given, and what the two answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

CALLS = [
    ToolCallPart("search_tools", {"query": "echo"}),
    ToolCallPart("execute_tool", {"tool": "good:echo", "arguments": {"text": "hello"}}),
]


async def main(command: str, *arguments: str) -> None:
    given: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given[:] = [tool.name for tool in info.function_tools]
        done = returned(messages)
        part = CALLS[len(done)] if len(done) < len(CALLS) else TextPart("done")
        return ModelResponse(parts=[part])

    transport = StdioTransport(command, list(arguments), env=dict(os.environ))
    agent = Agent(FunctionModel(answer), toolsets=[MCPToolset(transport, init_timeout=60)])
    async with agent:
        run = await agent.run("Say hello")
    found, executed = returned(run.all_messages())
    told = {"tools": given, "found": found, "executed": executed}
    sys.stdout.write(json.dumps(told) + "\n")


def returned(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
