"""An MCP server over stdio that tries what its tools are called; each answers with what came of it.

    python trespassing_server.py

Standard library only, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]


def read(path: str) -> str:
    return Path(path).read_text("utf-8")


def listing(path: str) -> str:
    return json.dumps(sorted(one.name for one in Path(path).iterdir()))


def write(path: str) -> str:
    Path(path).write_text("trespassed", "utf-8")
    return "written"


def truncate(path: str) -> str:
    os.truncate(path, 0)
    return "truncated"


def rename(path: str, to: str) -> str:
    Path(path).rename(to)
    return "renamed"


def connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as one:
        one.sendall(b"trespassed")
    return "sent"


def datagram(port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"trespassed", ("127.0.0.1", port))
    return "sent"


def unix(address: str) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(address.replace("@", "\0"))
        one.sendall(b"trespassed")
    return "sent"


def itself() -> str:
    with socket.create_server(("127.0.0.1", 0)) as one:
        socket.create_connection(one.getsockname(), timeout=5).close()
    return "connected"


def fork(count: int) -> str:
    """How many of so many forks succeed; each child waits until its parent has tried all."""
    reading, writing = os.pipe()
    forked, refusal = 0, ""
    try:
        for _ in range(count):
            if os.fork() == 0:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
            forked += 1
    except OSError as error:
        refusal = f"; refused: {error}"
    os.close(writing)
    for _ in range(forked):
        os.wait()
    os.close(reading)
    return f"{forked}{refusal}"


def daemon() -> str:
    """A process that leaves its group, and ignores its end."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    command = [sys.executable, "-I", "-S", "-c", code]
    return str(subprocess.Popen(command, start_new_session=True).pid)


def kill(pid: int) -> str:
    os.kill(pid, signal.SIGKILL)
    return "killed"


def trace(pid: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, None, None) < 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "not attached")
    return "attached"


def limit(pid: int) -> str:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))
    return "limited"


def opens(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY))
    return "opened"


def allocate(mib: int) -> str:
    return str(len(b"x" * (mib << 20)))


def keyring() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(250, 0, -4, 0) < 0:  # KEYCTL_GET_KEYRING_ID, the keyring of the user
        raise OSError(ctypes.get_errno(), "no keyring")
    return "there"


def run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, check=False, timeout=20)
    return f"{done.returncode} {done.stdout.decode()} {done.stderr.decode()}"


def facts() -> str:
    lines = read("/proc/self/status").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return json.dumps(
        {
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "environment": dict(os.environ),
            "status": {name: value.strip() for name, value in status.items()},
            "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        }
    )


TOOLS: dict[str, Callable[..., str]] = {
    one.__name__: one
    for one in (
        *(read, listing, write, truncate, rename, connect, datagram, unix, itself, fork, daemon),
        *(kill, trace, limit, opens, allocate, keyring, run, facts),
    )
}


def main() -> None:
    sys.stderr.write("here\n")
    sys.stderr.flush()
    for line in sys.stdin.buffer:
        message: Message = json.loads(line)
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


def answer(message: Message) -> Message:
    match message:
        case {"method": "initialize"}:
            info = {"name": "trespassing", "version": "1"}
            versions = {"protocolVersion": "2025-11-25", "serverInfo": info}
            return {"result": {**versions, "capabilities": {"tools": {}}}}
        case {"method": "tools/list"}:
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            return {"result": {"tools": tools}}
        case {"method": "tools/call", "params": {"name": name, "arguments": arguments}}:
            try:
                text = TOOLS[name](**arguments)
            except (OSError, MemoryError) as error:
                text = f"refused: {type(error).__name__}: {error}"
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


if __name__ == "__main__":
    main()
