"""A gateway that may make no namespaces, as on some systems; it tries a confined server.

    python unprivileged_gateway.py FOLDER CALLS

CALLS is a JSON list of pairs, a tool and its arguments; the answers are printed as a JSON list. The
server is `trespassing_server.py`, confined with Landlock, and FOLDER is that of the configuration.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path
from typing import Any

import anyio

from discovery_engine.upstream.stdio.sandbox import confinement
from tests.server_entries import call, engine_of
from tests.servers.programs import HERE

SERVER = str(HERE / "trespassing_server.py")


async def main(folder: Path, calls: list[tuple[str, dict[str, Any]]]) -> None:
    sandbox = {"kind": "landlock", "read": [SERVER], "processes": 40}
    server = {"command": sys.executable, "args": ["-I", "-S", SERVER], "sandbox": sandbox}
    async with engine_of(folder, {"confined": server}) as engine:
        answers = [await call(engine, "confined", tool, **arguments) for tool, arguments in calls]
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
