"""An agent of smolagents that finds its tools: python with_smolagents.py "order a chair"."""

import sys

from smolagents import InferenceClientModel, Model  # type: ignore[import-untyped]

from discovery_engine.integrations.smolagents import DiscoveryToolCallingAgent
from discovery_engine.sync import open_engine


def main(request: str, model: Model | None = None) -> str:
    with open_engine() as engine:
        agent = DiscoveryToolCallingAgent(model or InferenceClientModel(), discovery=engine)
        return str(agent.run(request))


if __name__ == "__main__":
    print(main(" ".join(sys.argv[1:]) or "order a chair"))
