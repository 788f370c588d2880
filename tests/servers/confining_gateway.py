"""A process that holds a session with a confined server, for tests to kill.

    python confining_gateway.py DATA_FOLDER KIND READABLE...

The server is `trespassing_server.py`; it starts a daemon, then `ready` is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.tools.model import ServerName
from tests.servers.programs import HERE, call, upstreams

SERVER = str(HERE / "trespassing_server.py")


async def main(data: str, kind: str, *readable: str) -> None:
    sandbox = SandboxSettings(kind, read=readable)  # type: ignore[arg-type]
    transport = StdioTransport(sys.executable, ("-I", "-S", SERVER), sandbox=sandbox)
    server = ServerSettings(ServerName("confined"), transport)
    async with upstreams(data=Path(data)) as opened:
        await call(opened, server, "daemon")
        print("ready", flush=True)  # noqa: T201
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
