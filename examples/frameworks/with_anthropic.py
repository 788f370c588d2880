"""Claude finds and calls tools of all servers: python with_anthropic.py "order a chair"."""

import sys

import anyio
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam

from discovery_engine import open_engine
from discovery_engine.integrations.anthropic import AnthropicTools


async def main(request: str, client: AsyncAnthropic) -> str:
    async with open_engine() as engine:
        tools = AnthropicTools(engine)
        messages: list[MessageParam] = [{"role": "user", "content": request}]
        while True:
            message = await client.messages.create(
                model="claude-sonnet-5-5", max_tokens=4096, messages=messages,
                tools=tools.definitions(messages),
            )  # fmt: skip
            messages.append({"role": "assistant", "content": message.content})
            if not (results := await tools.results(message)):
                return "".join(block.text for block in message.content if block.type == "text")
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    print(anyio.run(main, " ".join(sys.argv[1:]) or "order a chair", AsyncAnthropic()))
