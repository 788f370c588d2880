"""A process that holds upstreams, for tests to kill.

    python gateway.py STDIO_COMMAND_AS_JSON...

Connects a server for each command, prints `ready`, and waits for ever.

    python gateway.py --forks

Reads such commands, an array on each line, forks a process for each line, and prints its number:
that is twenty times as fast to start.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import anyio

from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.tools.model import ServerName
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


def forks() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # they need not be waited for
    for line in sys.stdin:
        if pid := os.fork():
            print(pid, flush=True)  # noqa: T201
        else:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            anyio.run(main, json.loads(line))


if __name__ == "__main__":
    if sys.argv[1:] == ["--forks"]:
        forks()
    else:
        anyio.run(main, [json.loads(argument) for argument in sys.argv[1:]])
