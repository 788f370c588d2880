"""A process that holds upstreams, for tests to kill.

    python gateway.py STDIO_COMMAND_AS_JSON...

Connects a server for each command, prints `ready`, and waits for ever.
"""

from __future__ import annotations

import json
import sys

import anyio

from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.tools import ServerName
from tests.servers.programs import upstreams


async def main(commands: list[list[str]]) -> None:
    async with upstreams() as opened, anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as connecting:
            for number, (command, *args) in enumerate(commands):
                transport = StdioTransport(command, tuple(args))
                server = ServerSettings(ServerName(f"server{number}"), transport)
                connecting.start_soon(opened.list_tools, server)
        print("ready", flush=True)  # noqa: T201
        tasks.start_soon(anyio.sleep_forever)


if __name__ == "__main__":
    anyio.run(main, [json.loads(argument) for argument in sys.argv[1:]])
