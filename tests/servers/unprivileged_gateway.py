"""A gateway that may make no namespaces, as on some systems; it tries a confined server.

    python unprivileged_gateway.py FOLDER CALLS

CALLS is a JSON list of pairs, a tool and its arguments; the answers are printed as a JSON list. The
server is `trespassing_server.py`, confined with Landlock, and FOLDER is the data folder.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path
from typing import Any

import anyio

from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.stdio.sandbox import confinement
from tests.servers.programs import HERE, call, upstreams

SERVER = str(HERE / "trespassing_server.py")


async def main(data: Path, calls: list[tuple[str, dict[str, Any]]]) -> None:
    sandbox = SandboxSettings("landlock", read=(SERVER,), processes=40)
    transport = StdioTransport(sys.executable, ("-I", "-S", SERVER), sandbox=sandbox)
    server = ServerSettings(ServerName("confined"), transport)
    async with upstreams(data=data) as opened:
        answers = [await call(opened, server, tool, **arguments) for tool, arguments in calls]
    print(json.dumps(answers))  # noqa: T201


def deny_namespaces() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    calls = confinement.seccomp_filter(has_internet=True, has_named_sockets=True, has_truncate=True)
    steps = ctypes.create_string_buffer(calls, len(calls))
    whole = struct.pack("HxxxxxxP", len(calls) // 8, ctypes.addressof(steps))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, whole, 0, 0) == 0  # PR_SET_SECCOMP, as a filter


if __name__ == "__main__":
    deny_namespaces()
    anyio.run(main, Path(sys.argv[1]), json.loads(sys.argv[2]))
