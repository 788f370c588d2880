"""GPT finds and calls tools of all servers: python with_openai_responses.py "order a chair"."""

import sys

import anyio
from openai import AsyncOpenAI

from discovery_engine import open_engine
from discovery_engine.integrations.openai_responses import ResponsesTools


async def main(request: str, client: AsyncOpenAI) -> str:
    async with open_engine() as engine:
        tools = ResponsesTools(engine)
        model = "gpt-6-sol"
        response = await client.responses.create(
            model=model, input=request, tools=tools.definitions()
        )
        while outputs := await tools.outputs(response):
            response = await client.responses.create(
                model=model, input=outputs, tools=tools.definitions(),
                previous_response_id=response.id,
            )  # fmt: skip
        return response.output_text


if __name__ == "__main__":
    print(anyio.run(main, " ".join(sys.argv[1:]) or "order a chair", AsyncOpenAI()))
