"""A process with hardly a descriptor left, that goes on using a server it has, for tests.

    python cramped.py ADDRESS

Prints what comes of a call to the server that it has, of a new program, and of a new address.
"""

from __future__ import annotations

import json
import os
import resource
import sys

import anyio

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UnavailableError
from discovery_engine.upstream.sessions import Upstreams
from tests.servers.programs import call, fault_server, remote_server, upstreams


async def main(address: str) -> None:
    old = fault_server(name="old")
    told = {}
    async with upstreams() as opened:
        await opened.list_tools(old)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        told["program"] = await refusal(opened, fault_server(name="new"))
        told["address"] = await refusal(opened, remote_server(address))
        told["old"] = await call(opened, old, text="hi")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        told["later"] = await call(opened, fault_server(name="new"), text="hi")
    print(json.dumps(told))  # noqa: T201


async def refusal(opened: Upstreams, server: ServerSettings) -> list[object]:
    try:
        return ["answered", await call(opened, server, text="hi")]
    except UnavailableError as error:
        return [error.kind, error.retry_after]


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
