"""A server of which each process has a number, and lists its tools when a test lets it.

    numbered_server.py FOLDER

The first process makes `started-1` in the folder, and lists the tool `of_1` once there is a file
`open-1`; the second one `of_2`, and so on. A file `open` lets all of them.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])


def own_number() -> int:
    for number in count(1):
        try:
            (FOLDER / f"started-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError("there is always a next number")


def result_of(method: str, number: int) -> dict[str, Any] | None:
    if method == "initialize":
        server = {"name": "numbered", "version": "1"}
        capabilities: dict[str, Any] = {"tools": {}}
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "serverInfo": server,
        }
    if method == "tools/list":
        while not any((FOLDER / name).exists() for name in ("open", f"open-{number}")):
            time.sleep(0.02)
        return {"tools": [{"name": f"of_{number}", "inputSchema": {"type": "object"}}]}
    return None


def main() -> None:
    number = own_number()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = result_of(message["method"], number)
        unknown = {"error": {"code": -32601, "message": "unknown method"}}
        outcome = unknown if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()


main()
