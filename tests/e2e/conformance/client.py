"""The engine as the client of one scenario of the official conformance suite.

    python client.py URL

It lists the tools of the server at that address and calls each of them. The suite gives the name of
the scenario, and sometimes the arguments, in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from discovery_engine import open_engine
from discovery_engine.engine import Engine
from discovery_engine.errors import DiscoveryError

SERVER = "suite"
ARGUMENTS: dict[str, Any] = {
    "add_numbers": {"a": 5, "b": 3},
    "valid_tool": {"region": "north"},
}


async def main(address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "discovery.yaml"
        config.write_text(json.dumps({"servers": {SERVER: {"url": address}}}), "utf-8")
        async with open_engine(config, data_dir=folder) as engine:
            await engine.refresh()
            await call_all(engine)


async def call_all(engine: Engine) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    given = {call["name"]: call["arguments"] for call in context.get("toolCalls", [])}
    for entry in (await engine.list_tools(SERVER)).entries:
        tool = entry.tool
        arguments = given.get(tool.name, ARGUMENTS.get(tool.name, {}))
        if tool.name == "json_schema_echo":
            focal = await engine.details(SERVER, "json_schema_2020_12_tool")
            arguments = {"schema": focal.tool.definition["inputSchema"]}
        try:
            await engine.execute(SERVER, tool.name, arguments)
        except DiscoveryError as error:  # some scenarios have calls that must not be sent
            print(error, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
