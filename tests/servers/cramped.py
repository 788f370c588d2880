"""A process with hardly anything left to it, that goes on using a server it has, for tests.

    python cramped.py descriptors|threads ADDRESS

Prints what comes of a call to the server that it has, of a new program, and of a new address.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UnavailableError
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import (
    call,
    descendants,
    fault_server,
    remote_server,
    upstreams,
)


async def main(what: str, address: str) -> None:
    old = fault_server(name="old")
    told: dict[str, object] = {}
    async with upstreams() as opened:
        await opened.list_tools(old)
        with no_more(what):
            told["program"] = await refusal(opened, fault_server(name="new"))
            told["address"] = await refusal(opened, remote_server(address))
            told["old"] = await call(opened, old, text="hi")
        told["left"] = len(descendants())
        told["later"] = await call(opened, fault_server(name="new"), text="hi")
    print(json.dumps(told))  # noqa: T201


@contextmanager
def no_more(what: str) -> Iterator[None]:
    """The time in which there is no descriptor, or no thread, but those in use."""
    if what == "threads":
        usual = threading.stack_size(1 << 46)
        yield
        threading.stack_size(usual)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def refusal(opened: Upstreams, server: ServerSettings) -> list[object]:
    try:
        return ["answered", await call(opened, server, text="hi")]
    except UnavailableError as error:
        return [error.kind, error.retry_after]


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
