"""The engine in a program of one's own: find a tool, look at it, execute it.

python examples/embed.py [discovery.yaml] [question]
"""

from __future__ import annotations

import sys

import anyio

from discovery_engine import DiscoveryError, open_engine
from discovery_engine.tools.signature import signature

CONFIG = "examples/quickstart/discovery.yaml"


async def main(config: str = CONFIG, question: str = "current time in a timezone") -> None:
    async with open_engine(config) as engine:
        report = await engine.refresh(["time"])
        for server, failure in report.servers:
            print(f"{server}: {failure.message if failure else 'listed'}")

        answer = await engine.search(question)
        for hit in answer.hits:
            print(f"{hit.relevance:.2f}  {hit.entry.key}  {hit.entry.tool.summary}")

        if answer.decision != "match":
            print("; ".join(notice.message for notice in answer.notices))
            return
        tool = answer.hits[0].entry.tool
        print(signature(tool))
        try:
            result = await engine.execute(tool.server, tool.name, {"timezone": "Asia/Tokyo"})
        except DiscoveryError as error:
            print(f"{error.code}: {error.message} ({error.hint})")
        else:
            print(result["content"][0]["text"])


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
