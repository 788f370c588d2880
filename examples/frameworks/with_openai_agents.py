"""An agent with the tools that fit: python with_openai_agents.py "order a chair"."""

import sys

import anyio
from agents import Model, Runner

from discovery_engine import open_engine
from discovery_engine.integrations.openai_agents import DiscoveryAgent


async def main(request: str, model: Model | None = None) -> str:
    async with open_engine() as engine:
        agent = DiscoveryAgent[None]("Assistant", model=model, discovery=engine)
        return str((await Runner.run(agent, request)).final_output)


if __name__ == "__main__":
    print(anyio.run(main, " ".join(sys.argv[1:]) or "order a chair"))
